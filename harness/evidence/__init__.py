"""A finished run as a folder that travels: judged again without a board, and packed to be sent."""
