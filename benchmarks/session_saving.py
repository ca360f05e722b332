"""What keeping a session costs: Flash-shaped states of some lengths, filled with noise, without any weights.

    python benchmarks/session_saving.py FOLDER [TOKENS ...]

FOLDER is on the disk that sessions would be on; what is written there is deleted again. Prints, per length: the state's
bytes, and milliseconds (median of 5) of a snapshot, of noting 200 tokens in the journal, of writing the file (on a
thread of its own in the agent) and of reading it back to a state that can be gone on with.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np

from whitedwarf.agent.session_facts import SessionFacts
from whitedwarf.agent.store import SessionStore
from whitedwarf.engine.session import SessionSnapshot
from whitedwarf.gguf.synth_shapes import model_shape
from whitedwarf.kvstore.model_facts import layout_of
from whitedwarf.kvstore.settings import StoreSettings
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.state import SequenceState

REPEATS = 5
ROUND_TOKENS = 200


class Words:
    """A tokenizer whose tokens are four letters long."""

    vocab_size = 129_280

    def token_bytes(self, token: int) -> bytes:
        return b"word"


def filled(config: ModelConfig, num_tokens: int) -> SequenceState:
    """A state of noise that is as large as a real one."""
    state, random = SequenceState(config, config.hp.compress_ratios), np.random.default_rng(1)
    for done in range(0, num_tokens, 512):
        count = min(512, num_tokens - done)
        state.make_room(count)
        for layer, ratio in zip(state.layers, state.ratios, strict=True):
            layer.window.extend(done, noise(random, count, layer.window.buffer))
            for part in layer.compressors:
                part.values.extend(done, noise(random, count, part.values.buffer))
                part.gates.extend(done, noise(random, count, part.gates.buffer))
                first, end = done // ratio, (done + count) // ratio
                part.rows.extend(first, noise(random, end - first, part.rows.buffer))
        state.advance(count)
    return state


def noise(random: np.random.Generator, rows: int, like: Any) -> Any:
    return random.integers(0, 255, (rows, like.shape[1])).astype(like.dtype)


def median_ms(act: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        began_s = time.perf_counter()
        act()
        times.append(1000 * (time.perf_counter() - began_s))
    return statistics.median(times)


def measure(folder: Path, num_tokens: int) -> None:
    config = ModelConfig(model_shape("flash"), "packed", 1 << 20)
    model: Any = SimpleNamespace(config=config, steering=None)
    words: Any = Words()
    store = SessionStore(StoreSettings(folder, layout_of(model)), words, model)
    state = filled(config, num_tokens)
    ids = np.arange(num_tokens, dtype=np.int32) % 100_000
    session = store.create("a question", ids, SessionFacts())
    saved = SessionSnapshot(ids, state.snapshot())
    snapshot_ms = median_ms(state.snapshot)
    longer = [np.append(ids, np.full(ROUND_TOKENS, number, np.int32)) for number in range(REPEATS)]
    note_ms = median_ms(lambda: session.note(longer.pop()))
    save_ms = median_ms(lambda: session.save(ids, saved, SessionFacts()))
    size = store.listing().entries[0].size_bytes
    session.note(ids)
    session.close()

    def load() -> None:
        resumed = store.open(session.id)
        assert resumed.saved is not None, resumed.why
        assert resumed.saved.state is not None
        other = SequenceState(config, config.hp.compress_ratios)
        other.restore(resumed.saved.state)
        resumed.session.close()

    load_ms = median_ms(load)
    print(f"{num_tokens:>8} {size / 2**20:>9.1f} {snapshot_ms:>9.1f} {note_ms:>9.1f} {save_ms:>9.0f} {load_ms:>9.0f}")
    store.delete(session.id)


def main() -> None:
    folder, *lengths = sys.argv[1:]
    print(f"{'tokens':>8} {'MB':>9} {'snapshot':>9} {'note':>9} {'save':>9} {'load':>9}   (ms)")
    for num_tokens in map(int, lengths or (1000, 10_000, 30_000, 100_000)):
        with TemporaryDirectory(dir=folder) as inside:
            measure(Path(inside), num_tokens)


if __name__ == "__main__":
    main()
