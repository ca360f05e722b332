"""Metal kernels through mx.fast.metal_kernel, each with the function that launches it, and the choice of them.

Every kernel has a twin in ops/mlx_twins/ with the same signature. Not yet run on a Mac: see docs/gpu.md.
"""
