"""Which case comes next: pure decisions about a list of numbers."""

from collections.abc import Iterable


class Order:
    """The cases that wait, first come first asked; each at most once."""

    def __init__(self, cases: Iterable[int]) -> None:
        self._waiting = list(cases)

    def next(self) -> int | None:
        """Take the first one; None where none waits."""
        return self._waiting.pop(0) if self._waiting else None

    def prefer(self, case: int) -> bool:
        """Let it come next; whether it was waiting at all."""
        if case not in self._waiting:
            return False
        self._waiting.remove(case)
        self._waiting.insert(0, case)
        return True

    def come_back(self, case: int) -> None:
        """It was given up for the one that comes next, and comes right after that."""
        if case not in self._waiting:
            self._waiting.insert(1, case)

    def remove(self, case: int) -> None:
        """It does not have to come any more."""
        if case in self._waiting:
            self._waiting.remove(case)

    def clear(self) -> None:
        """Nothing more is asked."""
        self._waiting.clear()
