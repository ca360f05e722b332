"""Make the golden vectors of tests/golden/score that come from the oracles: transformers' own logits, in our format.

    python scripts/make_score_golden.py

Those of nano are made again by the command line: see tests/golden/score/README.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from oracle.fixtures import oracle_arrays, oracle_file  # noqa: E402
from whitedwarf.evals.score.checking import golden_ids, tops_of  # noqa: E402
from whitedwarf.evals.score.golden_vectors import GoldenCase, golden_text  # noqa: E402
from whitedwarf.gguf.reader import open_gguf  # noqa: E402
from whitedwarf.prompt.special import SpecialToken  # noqa: E402
from whitedwarf.prompt.tokenizer import Tokenizer  # noqa: E402

FOLDER = ROOT / "tests" / "golden" / "score"
PROMPT = "prompts/oracle-text.txt"
FILES = {"tinyA": "tinyA/tiny-f32.gguf", "tinyQ": "tinyQ/tiny-iq2.gguf"}
FRONTIERS = (5, 41, 101, 121)
CONTEXT, NUM_TOP = 4096, 64


def main() -> None:
    text = SpecialToken.BOS.value + bytes(oracle_arrays("tinyA/ref.npz")["text"]).decode()
    (FOLDER / PROMPT).write_text(text, encoding="utf-8")
    for name, file in FILES.items():
        cases = [_case(name, file, frontier, text) for frontier in FRONTIERS]
        about = f"Likeliest tokens of {name} by transformers (float32), from tests/golden/oracle/{name}/ref.npz."
        (FOLDER / f"{name}.vec").write_text(golden_text(cases, about), encoding="utf-8")
        print(f"{name}: {len(cases)} cases")


def _case(name: str, file: str, frontier: int, text: str) -> GoldenCase:
    reference = oracle_arrays(f"{name}/ref.npz")
    with open_gguf(oracle_file(file)) as gguf:
        ids = golden_ids(Tokenizer.from_metadata(gguf.metadata), "rendered", text)
    if ids != reference["text_ids"].tolist():
        raise SystemExit(f"{name}: the prompt's ids are not the reference's")
    (row,) = np.flatnonzero(reference["text_pos"] == frontier - 1)
    tops = tops_of(reference["text_logits"][row], NUM_TOP)
    return GoldenCase(f"{name}-{frontier}", "rendered", CONTEXT, frontier, PROMPT, tops)


if __name__ == "__main__":
    main()
