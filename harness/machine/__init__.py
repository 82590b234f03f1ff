"""This computer and its configuration: external tools, what each lane needs, what is missing."""
