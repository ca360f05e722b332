"""Which files hold which tool calls, so that asking for a call opens only those that have it."""

import threading
from collections.abc import Callable, Iterable, Iterator, Set

from whitedwarf.kvstore.directory import Directory, Signature
from whitedwarf.kvstore.file import KvFile
from whitedwarf.kvstore.tool_map import occurring


class ToolIndex:
    """Call ids by file, read once as long as a file is the same. From any thread."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._asking = threading.Lock()
        self._known: dict[str, tuple[Signature | None, frozenset[str]]] = {}

    def blocks(self, names: Iterable[str], wanted: Set[str]) -> dict[str, bytes]:
        """The blocks of these calls in the files of these names."""
        names = set(names)
        with self._asking:
            self._known = {name: known for name, known in self._known.items() if name in names}
            return self._found(names, wanted)

    def _found(self, names: Iterable[str], wanted: Set[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name in self._holding(names, wanted):
            missing = wanted - found.keys()
            if not missing:
                break
            found |= self._read(name, _blocks_of(missing)) or {}
        return found

    def _holding(self, names: Iterable[str], wanted: Set[str]) -> Iterator[str]:
        for name in names:
            signature, known = self._directory.signature(name), self._known.get(name)
            if known is None or known[0] != signature:
                ids = self._read(name, lambda file: file.tools())
                known = self._known[name] = signature, frozenset(ids or ())
            if not known[1].isdisjoint(wanted):
                yield name

    def _read(self, name: str, read: Callable[[KvFile], dict[str, bytes]]) -> dict[str, bytes] | None:
        return self._directory.read(name, read)


def _blocks_of(wanted: Set[str]) -> Callable[[KvFile], dict[str, bytes]]:
    def read(file: KvFile) -> dict[str, bytes]:
        blocks = {call_id: block for call_id, block in file.tools().items() if call_id in wanted}
        text = file.text() if blocks else b""
        return occurring(blocks, text)

    return read
