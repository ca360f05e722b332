"""Does an importance matrix help? nano with few-bit experts, with and without: held-out perplexity and its evaluation.

    python benchmarks/imatrix_nano.py WORK_FOLDER [--source shared/nano/official] [--curriculum shared/nano/training]

Calibration texts: nano's own curriculum (another seed than the held-out conversations), and `gguf calibrate`'s corpus.
Prints a Markdown table; the numbers of every run are in WORK_FOLDER/results.json. Models that are there are not made
again.
"""

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from oracle.nano_eval import evaluate  # noqa: E402
from whitedwarf.calibration.dataset import block_ids, block_text  # noqa: E402
from whitedwarf.gguf.reader import open_gguf  # noqa: E402
from whitedwarf.model.base import Span  # noqa: E402
from whitedwarf.model.loading import load_model  # noqa: E402
from whitedwarf.model.transformer import Transformer  # noqa: E402
from whitedwarf.ops.select import make_ops  # noqa: E402
from whitedwarf.prompt.tokenizer import Tokenizer  # noqa: E402

SHARED = Path("/work/shared/nano")
CALIBRATION_SEED, HELD_OUT_SEED = 101, 20261130
NUM_CALIBRATION, NUM_HELD_OUT = 600, 300
CALIBRATION_TOKENS = 150_000  # of either text
MOST_TOKENS = 2048
IQ2_Q2K = ("--routed-w1", "iq2_xxs", "--routed-w3", "iq2_xxs", "--routed-w2", "q2_k")
Q2K = ("--experts", "q2_k")
ALL_Q2K = (*Q2K, "--shared", "q2_k", "--attention-proj", "q2_k", "--attention", "q2_k")


@dataclass(frozen=True, slots=True)
class Conversation:
    """A prompt of the curriculum and the answer that it expects."""

    prompt: str
    answer: str


def conversations(folder: Path, seed: int, count: int) -> list[Conversation]:
    """Of the curriculum's ordinary stage, as nano was trained on them."""
    sys.path.insert(0, str(folder))
    curriculum = importlib.import_module("data")
    curriculum.R.seed(seed)
    found = []
    for _ in range(count):
        drawn, is_mini = curriculum.sample("B")
        prompt, answer = curriculum.render(drawn, is_mini)
        found.append(Conversation(prompt, answer))
    return found


def whitedwarf(*words: object) -> None:
    """One command, or the end of this."""
    command = [sys.executable, "-m", "whitedwarf", *map(str, words)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})


def perplexities(model: Transformer, tokenizer: Tokenizer, held_out: Sequence[Conversation]) -> tuple[float, float]:
    """Of the answers alone, and of prompts and answers together."""
    nll = np.zeros(2)
    scored = np.zeros(2)
    for one in held_out:
        prompt = block_ids(tokenizer, one.prompt)
        ids = np.array(prompt + block_ids(tokenizer, one.answer), np.int32)
        if len(ids) > MOST_TOKENS:
            continue
        (logits,) = model.forward([Span(model.new_state(), ids[:-1], "all")])
        values = logits.astype(np.float64)
        top = values.max(axis=1)
        losses = top + np.log(np.exp(values - top[:, None]).sum(axis=1)) - values[np.arange(len(values)), ids[1:]]
        answers = losses[len(prompt) - 1 :]
        nll += answers.sum(), losses.sum()
        scored += len(answers), len(losses)
    answers_only, whole = np.exp(nll / scored).tolist()
    return answers_only, whole


def measure(path: Path, held_out: Sequence[Conversation]) -> dict[str, float]:
    with open_gguf(path) as gguf:
        model = load_model(gguf, make_ops("cpu", 2)).transformer
        tokenizer = Tokenizer.from_metadata(gguf.metadata)
        answers_only, whole = perplexities(model, tokenizer, held_out)
        passed, _, rows = evaluate(model)["all"]
    return {"answers": answers_only, "whole": whole, "exact": passed, "rows": rows, "bytes": path.stat().st_size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("work", type=Path)
    parser.add_argument("--source", type=Path, default=SHARED / "official")
    parser.add_argument("--curriculum", type=Path, default=SHARED / "training")
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    base = work / "base.gguf"
    if not base.exists():
        whitedwarf("gguf", "convert", arguments.source, base, "--outtype", "f32")
    texts = {"curriculum": work / "curriculum.txt", "corpus": work / "corpus.txt"}
    drawn = conversations(arguments.curriculum, CALIBRATION_SEED, NUM_CALIBRATION)
    blocks = (block_text((str(n), "curriculum"), one.prompt + one.answer) for n, one in enumerate(drawn))
    texts["curriculum"].write_text("".join(blocks), "utf-8")
    if not texts["corpus"].exists():
        whitedwarf("gguf", "calibrate", "-o", texts["corpus"], "--records", 300)
    matrices: dict[str, Path | None] = {"none": None}
    for name, text in texts.items():
        matrices[name] = matrix = work / f"{name}.gguf"
        if not matrix.exists():
            whitedwarf("gguf", "imatrix", text, "-o", matrix, "-m", base, "--max-tokens", CALIBRATION_TOKENS)
    held_out = conversations(arguments.curriculum, HELD_OUT_SEED, NUM_HELD_OUT)
    results = {"unquantised": measure(base, held_out)}
    for types, flags in {"IQ2_XXS/Q2_K": IQ2_Q2K, "Q2_K experts": Q2K, "Q2_K everywhere": ALL_Q2K}.items():
        for name, path in matrices.items():
            made = work / f"{types.replace('/', '-').replace(' ', '-')}-{name}.gguf"
            if not made.exists():
                whitedwarf("gguf", "quantize", base, made, *flags, *(() if path is None else ("--imatrix", path)))
            results[f"{types}, {name}"] = measure(made, held_out)
            print(f"{types}, {name}: {results[f'{types}, {name}']}", file=sys.stderr)
    (work / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    print("| experts, importance from | perplexity of answers | of whole conversations | exact of 204 |")
    print("|---|---|---|---|")
    for name, row in results.items():
        print(f"| {name} | {row['answers']:.4f} | {row['whole']:.4f} | {row['exact']} |")
    assert all(math.isfinite(row["answers"]) for row in results.values())


if __name__ == "__main__":
    main()
