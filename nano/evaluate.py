"""Score a GGUF of nano through our own engine: `python -m nano.evaluate [MODEL] [--draft FILE] [--json]`.

Per family of `tests/golden/nano/eval.npz`: rows whose whole answer is what greedy decoding gives (one forward pass per
row: every expected token is the likeliest), and with a draft block how often its first guess is the model's next token,
over the answers that the model itself gives.
"""

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nano.places import EVALUATION, PACKAGED, PACKAGED_DRAFT
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import Span
from whitedwarf.model.loading import load_model, load_mtp
from whitedwarf.model.mtp import MtpBlock
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.select import make_ops

Ids = NDArray[np.int32]
END = 1
LONGEST_ANSWER = 400
TOOL_FAMILIES = frozenset(
    ["call", "call_many_tools", "call_long_system", "parallel", "result", "second_turn", "nocall", "missing_tool"],
)


@dataclass
class Score:
    """Rows passed of all; draft guesses accepted of all."""

    passed: int = 0
    rows: int = 0
    accepted: int = 0
    drafted: int = 0

    def add(self, other: "Score") -> None:
        self.passed, self.rows = self.passed + other.passed, self.rows + other.rows
        self.accepted, self.drafted = self.accepted + other.accepted, self.drafted + other.drafted


def evaluate(model: Transformer, draft: MtpBlock | None, path: Path = EVALUATION) -> dict[str, Score]:
    """Scores per family, of the tool families together ("tools") and of all rows ("all")."""
    scores: dict[str, Score] = defaultdict(Score)
    with np.load(path) as golden:
        for name, family in zip(golden["names"], golden["families"], strict=True):
            prompt, expected = (golden[f"{name}/{part}"].astype(np.int32) for part in ("prompt", "answer"))
            score = score_row(model, draft, prompt, expected)
            for key in (str(family), "all", *(["tools"] if family in TOOL_FAMILIES else [])):
                scores[key].add(score)
    return dict(scores)


def score_row(model: Transformer, draft: MtpBlock | None, prompt: Ids, expected: Ids) -> Score:
    streams: list[NDArray[np.float32]] = []

    def keep(name: str, layer: int, rows: NDArray[np.float32]) -> None:
        if name == "streams" and layer == len(model.layers):
            streams.append(np.array(rows))

    state = model.new_state()
    ids = np.concatenate([prompt, expected[:-1]])
    logits = model.forward([Span(state, ids, "all")], keep)[0]
    passed = bool((logits[len(prompt) - 1 :].argmax(axis=1) == expected).all())
    score = Score(int(passed), 1)
    if draft is None:
        return score
    answer = expected if passed else greedy(model, prompt)
    if not passed:
        streams.clear()
        model.forward([Span(model.new_state(), np.concatenate([prompt, answer[:-1]]), "none")], keep)
    score.accepted, score.drafted = accepted(draft, prompt, answer, streams[0])
    return score


def accepted(draft: MtpBlock, prompt: Ids, answer: Ids, streams: NDArray[np.float32]) -> tuple[int, int]:
    """First guesses that are the answer's next token, and guesses; the block is fed the prompt too (model.md 2.9)."""
    whole = np.concatenate([prompt, answer])
    if len(answer) < 2:
        return 0, 0
    following = whole[1:-1]  # the token at p + 1 beside the streams at p
    logits = draft.forward([Span(draft.new_state(), following)], streams[: len(following)]).logits
    guesses = logits[len(prompt) - 1 :].argmax(axis=1)
    return int((guesses == answer[1:]).sum()), len(guesses)


def greedy(model: Transformer, prompt: Ids) -> Ids:
    """The model's own answer, with the end token when it comes to one."""
    state = model.new_state()
    token = int(model.forward([Span(state, prompt, "last")])[0][-1].argmax())
    answer = [token]
    while token != END and len(answer) < LONGEST_ANSWER:
        token = int(model.forward([Span(state, np.array([token], np.int32), "last")])[0][-1].argmax())
        answer.append(token)
    return np.array(answer, np.int32)


def main() -> None:
    parser = argparse.ArgumentParser(description="Score a GGUF of nano through our own engine.")
    parser.add_argument("model", type=Path, nargs="?", default=PACKAGED)
    parser.add_argument("--draft", type=Path, help="a file with the MTP block, when the model's own has none")
    parser.add_argument("--set", type=Path, default=EVALUATION, help="the rows; nano.held_out draws others")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.model == PACKAGED and arguments.draft is None and PACKAGED_DRAFT.exists():
        arguments.draft = PACKAGED_DRAFT
    loaded = load_model(open_gguf(arguments.model), make_ops("cpu", threads=arguments.threads))
    draft = load_mtp(open_gguf(arguments.draft), loaded.transformer) if arguments.draft else loaded.mtp
    scores = evaluate(loaded.transformer, draft, arguments.set)
    if arguments.json:
        print(json.dumps({family: vars(score) for family, score in scores.items()}))
        return
    for family, score in scores.items():
        drafts = f"   drafts {score.accepted}/{score.drafted} = {score.accepted / score.drafted:.0%}" if draft else ""
        print(f"{family:18} {score.passed:3}/{score.rows:3} = {score.passed / score.rows:4.0%}{drafts}")


if __name__ == "__main__":
    main()
