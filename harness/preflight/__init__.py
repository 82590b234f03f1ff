"""What a program would do wrong on a board, found on the host before anything is flashed."""
