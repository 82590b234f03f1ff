"""Arena bands: which pool sizes of a sketch work on a board, bounded below and above."""
