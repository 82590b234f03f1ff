"""The bench's boards: which are there, who has one, which are out of use."""
