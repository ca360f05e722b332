"""The nano evaluation by teacher forcing: a row passes when every expected token is the argmax."""

from collections import defaultdict
from pathlib import Path

import numpy as np

from oracle.fixtures import ROOT
from whitedwarf.model.base import Span
from whitedwarf.model.transformer import Transformer

GOLDEN = ROOT / "tests" / "golden" / "nano" / "eval.npz"


def is_exact(model: Transformer, prompt: np.ndarray, answer: np.ndarray) -> bool:
    """Whether greedy decoding from `prompt` gives exactly `answer`."""
    state = model.new_state()
    first = model.forward([Span(state, prompt.astype(np.int32), "last")])[0]
    rest = model.forward([Span(state, answer[:-1].astype(np.int32), "all")])[0] if len(answer) > 1 else first[:0]
    return bool((np.concatenate([first, rest]).argmax(axis=1) == answer).all())


def evaluate(model: Transformer, path: Path = GOLDEN) -> dict[str, tuple[int, int, int]]:
    """Per family (and 'all'): rows passed here, rows the reference implementation passed, rows."""
    tally: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    with np.load(path) as golden:
        rows = zip(golden["names"], golden["families"], golden["nano_passes"], strict=True)
        for name, family, reference in rows:
            passed = is_exact(model, golden[f"{name}/prompt"], golden[f"{name}/answer"])
            for key in (str(family), "all"):
                tally[key] = [a + int(b) for a, b in zip(tally[key], (passed, reference, True), strict=True)]
    return {key: (values[0], values[1], values[2]) for key, values in tally.items()}
