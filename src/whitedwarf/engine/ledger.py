"""How much memory checkpoints keep alive, when they share some of it: each shared buffer counts once."""

from dataclasses import dataclass

from whitedwarf.model.base import Held


@dataclass(slots=True)
class _Buffer:
    size_bytes: int
    num_holders: int = 0


class Ledger:
    """Whoever enters is counted until it leaves; between the two it must not change its buffers."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._buffers: dict[int, _Buffer] = {}

    def enter(self, held: Held) -> None:
        self.total_bytes += held.own_bytes
        for key, size_bytes in held.shared_bytes().items():
            buffer = self._buffers.setdefault(key, _Buffer(size_bytes))
            self.total_bytes += 0 if buffer.num_holders else size_bytes
            buffer.num_holders += 1

    def leave(self, held: Held) -> None:
        self.total_bytes -= held.own_bytes
        for key in held.shared_bytes():
            buffer = self._buffers[key]
            buffer.num_holders -= 1
            if not buffer.num_holders:
                self.total_bytes -= buffer.size_bytes
                del self._buffers[key]


def total_bytes(held: Held) -> int:
    """What it would keep alive alone."""
    return held.own_bytes + sum(held.shared_bytes().values())
