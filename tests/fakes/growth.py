"""How work grows with its size, on a machine of any speed and beside any load: a fake's opposite, a measurement."""

import gc
import time
from collections.abc import Callable
from typing import TypeVar

Of = TypeVar("Of")

TIMES = 16  # larger: in proportion takes 16 times as long, as the square 256 times
WITHIN = 64.0  # far from both: what is large leaves the caches and its pages are new, which costs some times more
SHORTEST_S = 0.01  # what takes less says nothing
TRIES = 6


def check_growth(work: Callable[[Of], object], small: Of, large: Of) -> None:
    """AssertionError where `work` takes more than WITHIN times as long for `large`, which is TIMES `small`.

    Processor seconds of this thread, the least of a few tries: others on the machine only ever add to them.
    """
    small_s = large_s = float("inf")
    for _ in range(TRIES):
        small_s = min(small_s, _thread_s(work, small))
        large_s = min(large_s, _thread_s(work, large))
        if large_s <= WITHIN * max(small_s, SHORTEST_S):
            return
    raise AssertionError(f"{TIMES} times as much took {large_s:.3f} s of the processor instead of {small_s:.3f} s")


def _thread_s(work: Callable[[Of], object], of: Of) -> float:
    gc.collect()
    gc.disable()  # what else this process holds is not this work's doing
    try:
        began_s = time.thread_time()
        work(of)
        return time.thread_time() - began_s
    finally:
        gc.enable()
