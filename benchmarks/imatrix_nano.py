"""Does an importance matrix help? nano with few-bit experts, with and without: held-out perplexity and its evaluation.

    python benchmarks/imatrix_nano.py WORK_FOLDER [--source shared/nano/official] [--curriculum shared/nano/training]

Calibration texts: nano's own curriculum (another seed than the held-out conversations), and `gguf calibrate`'s corpus.
Prints a Markdown table; the numbers are in WORK_FOLDER/results.json, too. The divergence (KL) from the model with
unquantised experts is the finest of the figures: both see the same tokens. Models that are there are not made
again.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
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
FAMILIES = ("attention-proj", "attention", "shared", "output", "embedding")
DENSE = [word for family in FAMILIES for word in (f"--{family}", "q8_0")]
IQ2_Q2K = ("--routed-w1", "iq2_xxs", "--routed-w3", "iq2_xxs", "--routed-w2", "q2_k")
Q2K = ("--experts", "q2_k")
NARROW = [f"blk.{layer}.attn_q_b=q8_0" for layer in range(6)]  # rows of 128: less than a block of Q2_K
ALL_Q2K = ["--attention", "q8_0", "--output", "q8_0", "--embedding", "q8_0", *Q2K]
ALL_Q2K += ["--shared", "q2_k", "--attention-proj", "q2_k"]
ALL_Q2K += [word for kept in NARROW for word in ("--tensor-type", kept)]


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


class Held:
    """Held-out conversations as ids, and what the model with unquantised experts says after each token of them."""

    def __init__(self, path: Path, drawn: Sequence[Conversation]) -> None:
        with open_gguf(path) as gguf:
            tokenizer = Tokenizer.from_metadata(gguf.metadata)
        pairs = [(block_ids(tokenizer, one.prompt), block_ids(tokenizer, one.answer)) for one in drawn]
        self.pairs = [(prompt, answer) for prompt, answer in pairs if len(prompt) + len(answer) <= MOST_TOKENS]
        self.wanted = [log_probabilities(logits).astype(np.float16) for logits in self.logits(opened(path))]

    def logits(self, model: Transformer) -> Iterator[np.ndarray]:
        """(tokens - 1, V) of each conversation."""
        for prompt, answer in self.pairs:
            ids = np.array(prompt + answer, np.int32)
            yield model.forward([Span(model.new_state(), ids[:-1], "all")])[0]

    def compared(self, model: Transformer) -> dict[str, float]:
        """Perplexity of the answers and of everything; mean divergence from the unquantised, in millinats."""
        losses: list[list[float]] = [[], []]
        divergences: list[list[float]] = [[], []]
        for (prompt, answer), wanted, logits in zip(self.pairs, self.wanted, self.logits(model), strict=True):
            found = log_probabilities(logits)
            targets = np.array((prompt + answer)[1:])
            truth = wanted.astype(np.float64)
            by_token = -found[np.arange(len(targets)), targets], (np.exp(truth) * (truth - found)).sum(axis=1)
            for kept, values in zip((losses, divergences), by_token, strict=True):
                kept[0] += values[len(prompt) - 1 :].tolist()
                kept[1] += values.tolist()
        return {
            "answers": float(np.exp(np.mean(losses[0]))),
            "whole": float(np.exp(np.mean(losses[1]))),
            "kl_answers": 1000 * float(np.mean(divergences[0])),
            "kl_whole": 1000 * float(np.mean(divergences[1])),
            "tokens": len(losses[1]),
        }


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    """float64."""
    values = logits.astype(np.float64)
    values -= values.max(axis=1, keepdims=True)
    return np.asarray(values - np.log(np.exp(values).sum(axis=1, keepdims=True)))


def opened(path: Path) -> Transformer:
    return load_model(open_gguf(path), make_ops("cpu", 2)).transformer


def measure(path: Path, held: Held, *, is_evaluated: bool) -> dict[str, float]:
    model = opened(path)
    found = held.compared(model)
    if is_evaluated:
        found["exact"], _, found["rows"] = evaluate(model)["all"]
    return {**found, "bytes": path.stat().st_size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("work", type=Path)
    parser.add_argument("--source", type=Path, default=SHARED / "official")
    parser.add_argument("--curriculum", type=Path, default=SHARED / "training")
    parser.add_argument("--held-out", type=int, default=NUM_HELD_OUT)
    parser.add_argument("--no-eval", action="store_true", help="leave the 204 rows out")
    parser.add_argument("--results", default="results.json")
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
    dense = work / "dense.gguf"
    if not dense.exists():
        whitedwarf("gguf", "quantize", base, dense, *DENSE)
    held = Held(dense, conversations(arguments.curriculum, HELD_OUT_SEED, arguments.held_out))
    is_evaluated = not arguments.no_eval
    results = {"F32 experts": measure(dense, held, is_evaluated=is_evaluated)}
    print(results, file=sys.stderr)
    kinds = {"IQ2_XXS/Q2_K": (*DENSE, *IQ2_Q2K), "Q2_K experts": (*DENSE, *Q2K), "Q2_K everywhere": ALL_Q2K}
    for types, flags in kinds.items():
        for name, path in matrices.items():
            made = work / f"{types.replace('/', '-').replace(' ', '-')}-{name}.gguf"
            if not made.exists():
                whitedwarf("gguf", "quantize", base, made, *flags, *(() if path is None else ("--imatrix", path)))
            results[f"{types}, {name}"] = measure(made, held, is_evaluated=is_evaluated)
            print(f"{types}, {name}: {results[f'{types}, {name}']}", file=sys.stderr)
    (work / arguments.results).write_text(json.dumps(results, indent=2) + "\n")
    columns = ("answers", "whole", "kl_answers", "kl_whole", "exact")
    print("| experts, importance from | perplexity: answers | whole | KL, 1/1000: answers | whole | exact of 204 |")
    print("|---|---|---|---|---|---|")
    for name, row in results.items():
        print(f"| {name} |", " | ".join(f"{row[column]:.6g}" if column in row else "" for column in columns), "|")


if __name__ == "__main__":
    main()
