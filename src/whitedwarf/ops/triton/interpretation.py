"""Whether kernels run in Triton's interpreter: the one place where that makes a difference.

The interpreter takes a millisecond and more for every program of a grid, whatever its size, so there programs take
larger pieces. Results differ in the order of sums only.
"""

import os

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def block(compiled: int, interpreted: int) -> int:
    """How many rows (or outputs, or ...) a program takes."""
    return interpreted if IS_INTERPRETED else compiled
