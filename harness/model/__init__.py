"""Models: a registry, their export for one target, and what each has to answer."""
