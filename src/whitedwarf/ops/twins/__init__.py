"""Plain torch arithmetic of every operation: what the kernels of ops/triton/ are tested against."""
