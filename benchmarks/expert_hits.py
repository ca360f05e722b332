"""What a cache of experts hits before a disk: the real policy and store over drawn and real picks, without a disk.

    python benchmarks/expert_hits.py [--layers 16] [--experts 128] [--used 6] [--decode 150]

Three conversations, each a prompt of three chunks of 512 tokens and so many decoded ones. Drawn picks: alike, or by
Zipf's law with exponent 0.8, in another order for each layer, half of it new with each conversation, three in ten
decoded picks among those of the last four tokens. nano: its own picks over README.md and sampled tokens (prompts of two
chunks of 256). Shares are of all experts; columns: prompts, the first 16 tokens after each, later tokens; behind the
bar the same with least recently used. Everything begins cold and counts. The last line is JSON.
"""

import argparse
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.model.loading import load_model
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.direct_reader import DirectReader
from whitedwarf.weights.expert_extents import Extent, LayerExtents
from whitedwarf.weights.expert_store import ExpertStore
from whitedwarf.weights.store import bundled_model

Pass = list[np.ndarray]  # of each layer: (rows, used)
Ask = Callable[[int, np.ndarray], tuple[int, int]]  # layer, picks -> hits, misses
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
CHUNK, RECENT, FIRST = 512, 4, 16


def drawn(kind: str, layers: int, experts: int, used: int, decode: int) -> list[Pass]:
    rng = np.random.default_rng(1)
    law = 1 / np.arange(1, experts + 1) ** (0.8 if kind == "zipf" else 0.0)
    law /= law.sum()
    always = [rng.permutation(law) for _ in range(layers)]
    passes: list[Pass] = []
    for _ in range(3):
        chances = [(rng.permutation(law) + own) / 2 for own in always]
        passes += [[several(rng, chance, CHUNK, used) for chance in chances] for _ in range(3)]
        recent: list[list[int]] = [[] for _ in range(layers)]
        for _ in range(decode):
            picks = []
            for layer, chance in enumerate(chances):
                new = several(rng, chance, 1, used)[0].tolist()
                if kind == "zipf" and recent[layer]:
                    new = [int(rng.choice(recent[layer])) if rng.random() < 0.3 else expert for expert in new]
                picks.append(np.array([new], np.int32))
                recent[layer] = (recent[layer] + new)[-RECENT * used :]
            passes.append(picks)
    return passes


def several(rng: np.random.Generator, chance: np.ndarray, rows: int, used: int) -> np.ndarray:
    """(rows, used) different experts a row."""
    drawn = np.log(chance) + rng.gumbel(size=(rows, len(chance)))
    return np.argpartition(-drawn, used, axis=1)[:, :used].astype(np.int32)


def of_nano(decode: int) -> list[Pass]:
    with open_gguf(bundled_model()) as gguf:
        model = load_model(gguf, CpuOps(threads=1)).transformer
        text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
        ids = np.array(Tokenizer.from_metadata(gguf.metadata).encode(text)[: 3 * CHUNK], np.int32)
    rng, passes = np.random.default_rng(0), []

    def forward(span: Span) -> np.ndarray:
        picks: Pass = []
        logits = model.forward([span], lambda name, layer, rows: picks.append(rows) if name == "experts_picked" else 0)
        passes.append(picks)
        return np.asarray(logits[0]).reshape(-1)

    for first in range(0, 3 * CHUNK, CHUNK):
        state = model.new_state()
        for start in (first, first + CHUNK // 2):
            logits = forward(Span(state, ids[start : start + CHUNK // 2]))
        for _ in range(decode):
            chance = np.exp(logits - logits.max())
            token = rng.choice(len(chance), p=chance / chance.sum())
            logits = forward(Span(state, np.array([token], np.int32)))
    return passes


def rates(passes: Sequence[Pass], ask: Ask) -> list[float]:
    """Of prompts, of the first tokens after them, of later ones."""
    counts, since = np.zeros((3, 2)), 0
    for picks in passes:
        is_prompt = len(picks[0]) > 1
        since = 0 if is_prompt else since + 1
        which = 0 if is_prompt else 1 if since <= FIRST else 2
        for layer, picked in enumerate(picks):
            counts[which] += ask(layer, picked)
    return [round(float(hits / (hits + misses)), 3) for hits, misses in counts]


class NoBytes:
    """A reader without a disk, and its readings: whatever is asked for is here."""

    is_over, has_failed, bytes_read = True, False, 0
    nothing = np.zeros(0, np.uint8)

    def begin(self, extent: Extent, into: memoryview, *, is_urgent: bool = True) -> "NoBytes":
        return self

    def wait(self) -> np.ndarray:
        return self.nothing

    def settle(self) -> None: ...

    def cancel(self) -> None: ...


def of_store(passes: Sequence[Pass], experts: int, slots: int) -> list[float]:
    place, reader = Extent(0, 0, 0), cast(DirectReader, NoBytes())
    layers = [LayerExtents(layer, place, place, place, experts) for layer in range(len(passes[0]))]
    with ExpertStore(layers, reader, num_slots=slots) as store:

        def ask(layer: int, picked: np.ndarray) -> tuple[int, int]:
            before = store.traffic
            for _ in store.rounds(layer, picked):
                pass
            return store.traffic.hits - before.hits, store.traffic.misses - before.misses

        return rates(passes, ask)


def of_recency(passes: Sequence[Pass], slots: int) -> list[float]:
    held: OrderedDict[tuple[int, int], None] = OrderedDict()

    def ask(layer: int, picked: np.ndarray) -> tuple[int, int]:
        hits = 0
        needed = np.unique(picked).tolist()
        for expert in needed:
            hits += (layer, expert) in held
            held[layer, expert] = None
            held.move_to_end((layer, expert))
            if len(held) > slots:
                held.popitem(last=False)
        return hits, len(needed) - hits

    return rates(passes, ask)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("layers", 16), ("experts", 128), ("used", 6), ("decode", 150)):
        parser.add_argument(f"--{name}", type=int, default=number)
    given = parser.parse_args()
    results = []
    for kind in ("nano", "zipf", "uniform"):
        if kind == "nano":
            passes, experts = of_nano(given.decode), 8
        else:
            passes = drawn(kind, given.layers, given.experts, given.used, given.decode)
            experts = given.experts
        for share in SHARES:
            slots = max(1, round(share * experts * len(passes[0])))
            ours, recency = of_store(passes, experts, slots), of_recency(passes, slots)
            print(f"{kind:8s} {share:4.0%}  {ours} | {recency}", flush=True)
            results.append({"picks": kind, "share": share, "ours": ours, "least_recently_used": recency})
    print(json.dumps(results))


if __name__ == "__main__":
    main()
