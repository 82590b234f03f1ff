"""A port, everything it said, and ``expect`` over what was kept."""
