"""Files that outlive a run: digests, locks, and cache entries that are whole or absent."""
