"""Answers prompts of the bundled model and saves their states until it is killed: a program of test_bits_killed.py."""

import sys
from pathlib import Path

from engine.bits import ask, on_disk
from engine.killed_prompts import ROOM_BYTES, rounds


def main() -> None:
    folder, start = Path(sys.argv[1]), int(sys.argv[2])
    with on_disk(folder, ROOM_BYTES) as engine:
        print("ready", flush=True)
        for ids in rounds(start):
            ask(engine, ids, 2)


main()
