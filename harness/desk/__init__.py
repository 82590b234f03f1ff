"""The desk: the board a run uses, its port and its transcript, and who gives it back afterwards."""
