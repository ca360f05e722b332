"""A store in a temporary folder, with a clock and a log that tests can look at."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from fakes.kv_files import HEAD, INDEX_HEAD, RATIOS, VOCAB, WINDOW, FakeFile
from fakes.packed_files import KEY_BYTES, ROW_BYTES, ROW_KIND, PackedFile
from whitedwarf.kvstore.payload import Layout, Payload, PayloadKind
from whitedwarf.kvstore.policy import Limits
from whitedwarf.kvstore.settings import StoreSettings
from whitedwarf.kvstore.store import KvStore

LAYOUT = Layout(RATIOS, HEAD, INDEX_HEAD, VOCAB, WINDOW, context_length=600)
PACKED_LAYOUT = replace(LAYOUT, row_kind=ROW_KIND, row_bytes=ROW_BYTES, key_bytes=KEY_BYTES)
LIMITS = Limits(min_tokens=4, cold_max_tokens=200)


def payload_of(file: FakeFile) -> Payload:
    layers = tuple(tuple(layer) for layer in file.arrays())
    kind = PayloadKind.PACKED if isinstance(file, PackedFile) else PayloadKind.DS4
    return Payload(np.array(file.tokens(), np.int32), file.logits(), layers, kind)


class StoreBench:
    """Opens stores on one folder, as restarts do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.now = 1_800_000_000

    def open(self, layout: Layout = LAYOUT, **settings) -> KvStore:
        settings = {"limits": LIMITS, "budget_bytes": 10 << 20} | settings
        return KvStore(StoreSettings(self.folder, layout, **settings), self.lines.append, lambda: self.now)

    def put(self, file: FakeFile, name: str | None = None) -> Path:
        path = self.folder / f"{name or file.name}.kv"
        path.write_bytes(file.to_bytes())
        path.chmod(0o600)
        return path

    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}
