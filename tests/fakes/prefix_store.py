"""A second level below memory that keeps everything, and remembers what it was offered."""

import threading

from fakes.models import FakeSnapshot
from whitedwarf.engine.prefix import SaveReason, StoredPrefix
from whitedwarf.model.base import Ids, Logits, Snapshot


class FakeStore:
    """A `PrefixStore`; `is_broken` makes everything raise."""

    def __init__(self) -> None:
        self.saved: dict[tuple[int, ...], Snapshot] = {}
        self.reasons: list[tuple[int, SaveReason]] = []
        self.offered: list[tuple[int, ...]] = []  # the ids of each of `reasons`
        self.offered_logits: list[Logits | None] = []
        self.threads: set[str] = set()
        self.is_broken = False

    def find(self, ids: Ids) -> StoredPrefix | None:
        if self.is_broken:
            raise OSError("no disk")
        self.threads.add(threading.current_thread().name)
        found = [key for key in self.saved if len(key) < len(ids) and list(key) == ids[: len(key)].tolist()]
        return max(
            (StoredPrefix(len(key), lambda key=key: self._load(key)) for key in found), key=_length, default=None
        )

    def save(self, ids: Ids, snapshot: Snapshot, reason: SaveReason, logits: Logits | None) -> None:
        if self.is_broken:
            raise OSError("no disk")
        self.offered.append(tuple(ids.tolist()))
        self.offered_logits.append(logits)
        self.threads.add(threading.current_thread().name)
        self.reasons.append((len(ids), reason))
        self.saved[tuple(ids.tolist())] = snapshot

    def _load(self, key: tuple[int, ...]) -> Snapshot:
        return FakeSnapshot(key)


def _length(stored: StoredPrefix) -> int:
    return stored.num_tokens
