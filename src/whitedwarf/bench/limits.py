"""What the machine could do at most: memory read and arithmetic in registers, both measured with all threads.

The best of several tries counts: other work can only make a limit look smaller.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from whitedwarf._native import Kernels

TRIES = 9
ROUNDS = 20_000  # some milliseconds a thread
LEVELS = ("scalar", "neon", "avx2", "avx512", "amx")  # each has what those before it on its machine have


@dataclass(frozen=True, slots=True)
class Peak:
    """Multiplications and additions per second of one kind."""

    level: str
    arithmetic: str  # int8, bf16 or f32
    ops_per_s: float


def measured_peaks(kernels: Kernels, rounds: int = ROUNDS) -> tuple[Peak, ...]:
    """Of every level that this CPU has, whatever level these kernels are."""
    names = [name.split(" ") for name in Kernels.peaks()]
    return tuple(Peak(level, kind, _best(kernels, level, kind, rounds)) for level, kind in names)


def int8_peak(kernels: Kernels) -> float | None:
    """Operations per second of the fastest int8 arithmetic of this CPU; None where no loop measures it."""
    return max((peak.ops_per_s for peak in measured_peaks(kernels) if peak.arithmetic == "int8"), default=None)


def _best(kernels: Kernels, level: str, arithmetic: str, rounds: int) -> float:
    best = 0.0
    for _ in range(TRIES):
        start = perf_counter()
        operations = kernels.run_peak(level, arithmetic, rounds)
        best = max(best, operations / (perf_counter() - start))
    return best


def peak_of(peaks: Sequence[Peak], level: str, arithmetic: str) -> float | None:
    """Operations per second that kernels of this level could do; None where no loop measures it (scalar)."""
    if level not in LEVELS:
        return None
    below = LEVELS[: LEVELS.index(level) + 1]
    return max((p.ops_per_s for p in peaks if p.level in below and p.arithmetic == arithmetic), default=None)
