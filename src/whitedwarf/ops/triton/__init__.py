"""Triton kernels, one to a file: each with the function that launches it, whose signature is that of its twin."""
