"""The runner sketch: its protocol, its client, and how it is built around a model."""
