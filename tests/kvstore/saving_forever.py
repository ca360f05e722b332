"""Saves and reads in a folder until it is killed: a program of test_killed.py."""

import itertools
import sys
from pathlib import Path

from fakes.kv_files import FakeFile
from kvstore.folder import StoreBench, payload_of
from whitedwarf.kvstore.file import Reason


def main() -> None:
    bench = StoreBench(Path(sys.argv[1]))
    store = bench.open(budget_bytes=700_000)
    print("ready", flush=True)
    for i in itertools.count(int(sys.argv[2])):
        text = b"text %d <A> " % (i % 40) + b"x" * 3000
        payload = payload_of(FakeFile(n=130 + i % 40, seed=i % 40))
        store.save(text, payload, Reason.COLD, tools={f"call_{i}": b"<A>", "call_all": b"<A>"})
        store.take(b"text %d <A> " % (i * 7 % 40) + b"x" * 3001)


main()
