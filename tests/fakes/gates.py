"""A gate before a fake model's forward pass, so that tests decide when a batch runs instead of sleeping."""

import threading
from collections.abc import Sequence

from whitedwarf.model.base import Span

PATIENCE_S = 60.0


class Gate:
    """Use as `before_forward`. Every pass waits until it is let through; `open` lets all others through, too."""

    def __init__(self) -> None:
        self.passes: list[tuple[int, ...]] = []  # rows of each span of every pass that arrived
        self._changed = threading.Condition()
        self._tickets = 0
        self._is_open = False

    def __call__(self, spans: Sequence[Span]) -> None:
        with self._changed:
            self.passes.append(tuple(len(span.ids) for span in spans))
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._is_open or self._tickets, PATIENCE_S), (
                "nobody let the pass through"
            )
            self._tickets -= 1

    def wait_for_pass(self, number: int) -> None:
        """Until pass `number`, counted from 1, stands before the gate."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.passes) >= number, PATIENCE_S), f"pass {number} never came"

    def let_through(self, count: int = 1) -> None:
        with self._changed:
            self._tickets += count
            self._changed.notify_all()

    def open(self) -> None:
        with self._changed:
            self._is_open = True
            self._changed.notify_all()
