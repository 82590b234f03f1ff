"""Hardware-in-the-loop test bench for the ExecuTorch Arduino library."""
