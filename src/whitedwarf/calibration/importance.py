"""From sums of squares to an importance matrix, and which experts nothing was learnt about."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from whitedwarf.gguf.importance import Imatrix, ImatrixEntry
from whitedwarf.ops.moments import Moments

GATE, UP, DOWN = "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"

# Weights of a block that are multiplied with the same rows as another one (model/attention.py, ops/collecting.py).
FOLLOWERS = {
    GATE: (UP,),
    "ffn_gate_shexp.weight": ("ffn_up_shexp.weight",),
    "attn_q_a.weight": (
        "attn_kv.weight",
        "attn_compressor_kv.weight",
        "attn_compressor_gate.weight",
        "indexer_compressor_kv.weight",
        "indexer_compressor_gate.weight",
        "indexer.proj.weight",
    ),
    "attn_q_b.weight": ("indexer.attn_q_b.weight",),
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often the experts of one layer were picked."""

    layer: int
    experts: int
    never: tuple[int, ...]  # experts without a single token
    fewest: int  # tokens of the rarest of the others


def make_imatrix(moments: Moments, names: frozenset[str], dataset: str, chunks: int, chunk_size: int) -> Imatrix:
    """Entries for all `names` (the model's tensors) that something is known about.

    Routed experts come first, layer by layer, gate, up, down, as in the original's files; then the others.
    """
    entries = {name: entry for name, entry in _entries(moments) if name in names}
    routed = [name for name in entries if name.endswith("_exps.weight")]
    order = [*sorted(routed, key=_layer), *(name for name in entries if name not in routed)]
    return Imatrix({name: entries[name] for name in order}, dataset, chunks, chunk_size)


def coverage(moments: Moments) -> list[Coverage]:
    """Layer by layer."""
    found = []
    for name in sorted((name for name in moments.counts if name.endswith(GATE)), key=_layer):
        counts = moments.counts[name]
        never = tuple(np.flatnonzero(counts == 0).tolist())
        fewest = int(counts[counts > 0].min()) if counts.any() else 0
        found.append(Coverage(_layer(name), len(counts), never, fewest))
    return found


def _entries(moments: Moments) -> Iterator[tuple[str, ImatrixEntry]]:
    """Gate and up before down."""
    for name in sorted(moments.sums, key=lambda name: (name.endswith(DOWN), _layer(name))):
        entry = ImatrixEntry(moments.sums[name], moments.counts[name])
        yield name, entry
        prefix, _, last = _split(name)
        for follower in FOLLOWERS.get(last, ()):
            yield prefix + follower, entry


def _layer(name: str) -> int:
    return _split(name)[1]


def _split(name: str) -> tuple[str, int, str]:
    """ "blk.3.attn_kv.weight" -> ("blk.3.", 3, "attn_kv.weight")."""
    if name.count(".") < 3:  # output.weight
        return "", -1, name
    block, number, last = name.split(".", 2)
    return f"{block}.{number}.", int(number), last
