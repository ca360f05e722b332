"""Graphs without a device: a recording is the call with what it was given, and a replay makes that call again.

So it reads the numbers where they lay, as a real one does, and knows nothing of the newest pass. Its result is in the
same memory every time.
"""

from collections.abc import Callable
from typing import Any


class CalledAgain:
    """Counts the recordings and replays it made."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error  # what every recording meets
        self.num_recorded = 0
        self.num_replayed = 0

    def record(self, run: Callable[[], Any]) -> Callable[[], Any]:
        if self.error is not None:
            raise self.error
        self.num_recorded += 1
        results: list[Any] = []

        def replay() -> Any:
            self.num_replayed += 1
            result = run()
            if not results:
                results.append(result.clone())
            return results[0].copy_(result)

        return replay
