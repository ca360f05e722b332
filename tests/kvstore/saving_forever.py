"""Saves and reads in a folder until it is killed, in both formats: a program of test_killed.py."""

import itertools
import sys
from pathlib import Path

from fakes.kv_files import FakeFile
from fakes.packed_files import PackedFile
from kvstore.folder import PACKED_LAYOUT, StoreBench, payload_of
from whitedwarf.kvstore.header import Reason


def main() -> None:
    bench = StoreBench(Path(sys.argv[1]))
    store = bench.open(budget_bytes=700_000, layout=PACKED_LAYOUT)
    print("ready", flush=True)
    for i in itertools.count(int(sys.argv[2])):
        text = b"text %d <A> " % (i % 40) + b"x" * 3000
        kind = (FakeFile, PackedFile)[i // 7 % 2]
        payload = payload_of(kind(n=130 + i % 40, seed=i % 40))
        store.save(text, payload, Reason.COLD, tools={f"call_{i}": b"<A>", "call_all": b"<A>"})
        hit = store.take(b"text %d <A> " % (i * 7 % 40) + b"x" * 3001)
        assert hit is None or hit.payload.num_tokens == 130 + i * 7 % 40


main()
