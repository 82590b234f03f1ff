"""Virtual boards: a small owner process each, a pty in front, QEMU or a native program behind."""
