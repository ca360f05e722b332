"""Room in a directory: which files go so that it keeps to its budget, and which must not go yet.

Any thread may say what is needed; one at a time makes room. The choice itself is policy.py's.
"""

import threading
from collections import deque
from collections.abc import Set

from whitedwarf.kvstore import policy
from whitedwarf.kvstore.directory import Directory, Log
from whitedwarf.kvstore.policy import Incoming
from whitedwarf.kvstore.stats import Tally

MAX_SPARED = 16  # more than requests that usually run at a time


class Room:
    """Of one directory."""

    def __init__(self, directory: Directory, budget_bytes: int, log: Log, tally: Tally) -> None:
        self._directory, self._budget_bytes = directory, budget_bytes
        self._log, self._tally = log, tally
        self._choosing = threading.Lock()
        self._spared: deque[str] = deque(maxlen=MAX_SPARED)  # the most recent last
        self._used_up: set[str] = set()

    def spare(self, name: str) -> None:
        """Evict it only after others, as one of the last few that were needed.

        What running requests came from must not go for what they save.
        """
        with self._choosing:
            if name in self._spared:
                self._spared.remove(name)
            self._spared.append(name)

    def use_up(self, name: str) -> None:
        """Its work is done once a longer file begins with its text."""
        with self._choosing:
            self._used_up.add(name)

    def make(self, now: int, incoming: Incoming | None = None) -> None:
        """Evict until the incoming file fits too."""
        with self._choosing:
            entries = self._directory.entries()
            self._used_up &= entries.keys()
            chosen = policy.victims(entries.values(), self._budget_bytes, now, incoming, self._spared)
            gone = [entry for entry in chosen if self._remove(entry.name)]
        self._tally.add(evicted=len(gone))
        for entry in gone:
            self._log(f"kv cache: evicted {entry.name[:12]}, {entry.num_tokens} tokens, {entry.file_bytes} bytes")

    def retire(self, prefixes: Set[str]) -> None:
        """Remove what was used up of these files, which a longer one begins with."""
        with self._choosing:
            done = prefixes & self._used_up
            self._used_up -= done
        for name in done:
            if self._remove(name):
                self._tally.add(consumed=1)
                self._log(f"kv cache: consumed {name[:12]}")

    def _remove(self, name: str) -> bool:
        try:
            self._directory.remove(name)
        except OSError as error:
            self._log(f"kv cache: could not remove {name[:12]}: {error}")
            return False
        return True
