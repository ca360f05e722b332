"""Which evaluation rows the trained network gets exactly right: `python -m nano.mark_evaluation RELEASE_FOLDER`.

Rewrites `nano_passes` in tests/golden/nano/eval.npz; prompts and answers stay. It runs the training network (bfloat16
products, the indexer's own picks), so it is an opinion independent of our engine.
"""

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nano.checkpoint import read_parameters
from nano.network import Network, Rows
from nano.places import EVALUATION
from nano.rows import PAD
from nano.shape import Shape

LONGEST = 4096


@torch.no_grad()
def passes(network: Network, prompt: NDArray[np.int16], answer: NDArray[np.int16]) -> bool:
    """Whether every token of the answer is the likeliest after what stands before it."""
    ids = torch.from_numpy(np.concatenate([prompt, answer]).astype(np.int64))
    padded = torch.cat([ids, ids.new_full((-len(ids) % 128,), PAD)])[None]
    rows = Rows(padded, torch.zeros(padded.shape, dtype=torch.int32))
    places = torch.arange(len(prompt) - 1, len(ids) - 1)
    logits = network.forward(rows, places, is_sparse=True).logits
    return bool((logits.argmax(-1) == ids[places + 1]).all())


def mark(network: Network, source: Path, target: Path) -> Counter[str]:
    """Rows passed per family; `target` is written beside and renamed."""
    with np.load(source) as golden:
        arrays = dict(golden)
    names, families = arrays["names"], arrays["families"]
    marks = [passes(network, arrays[f"{name}/prompt"], arrays[f"{name}/answer"]) for name in names]
    beside = target.with_suffix(".part.npz")
    np.savez_compressed(beside, **{**arrays, "nano_passes": np.array(marks)})
    beside.replace(target)
    return Counter(str(family) for family, passed in zip(families, marks, strict=True) if passed)


def main() -> None:
    parser = argparse.ArgumentParser(description="Mark the evaluation rows that a checkpoint passes.")
    parser.add_argument("source", type=Path, help="release folder, .gguf or .pt")
    parser.add_argument("--set", type=Path, default=EVALUATION, help="the rows; nano.held_out draws others")
    parser.add_argument("--target", type=Path, help="where the marked set goes (default: into the set itself)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    network = Network(Shape(), read_parameters(arguments.source, Shape()), LONGEST)
    passed = mark(network, arguments.set, arguments.target or arguments.set)
    print(f"{arguments.set}: {sum(passed.values())} rows pass; {dict(passed)}")


if __name__ == "__main__":
    main()
