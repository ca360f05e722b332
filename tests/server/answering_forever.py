"""Reads prompts and saves their states until it is killed: a program of test_disk_killed.py."""

import itertools
import sys
from contextlib import suppress
from pathlib import Path

from server.disk_prompts import LENGTHS, prompt_of, serve_settings, store_of
from whitedwarf.cli.loading import open_model
from whitedwarf.config import ModelSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, GenerateOptions
from whitedwarf.weights.store import bundled_model


def main() -> None:
    folder, written_as = Path(sys.argv[1]), sys.argv[2]
    loaded = open_model(ModelSettings(model=str(bundled_model()), context=8192))
    store = store_of(loaded, serve_settings(folder, written_as))
    with store, Engine(loaded.transformer, prefix_budget_bytes=1 << 20, store=store) as engine:
        print("ready", flush=True)
        for number in itertools.count(1):
            length = LENGTHS[number % len(LENGTHS)]
            engine.submit(prompt_of(length), GenerateOptions(max_tokens=2, sampling=GREEDY)).result(60.0)
            if number % 3 == 0:
                forget_all(folder)


def forget_all(folder: Path) -> None:
    """So that there is something to save."""
    for path in folder.glob("*.kv"):
        with suppress(OSError):
            path.unlink()


main()
