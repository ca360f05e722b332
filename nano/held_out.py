"""A held-out set to judge a run by while it trains: `python -m nano.held_out FILE [--rows 10] [--seed 5]`.

The families of the frozen evaluation, freshly drawn, in the same format as tests/golden/nano/eval.npz; none of its rows
is the same. Choose between checkpoints with this, and look at the frozen evaluation once.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

from nano.curriculum.arithmetic import arithmetic, two_digit_addition
from nano.curriculum.conversation import Conversation, said
from nano.curriculum.copying import copying
from nano.curriculum.facts import held_out_fact
from nano.curriculum.rendering import render
from nano.curriculum.retrieval import retrieval
from nano.curriculum.small_talk import small_talk
from nano.curriculum.structured import json_object
from nano.curriculum.texts import long_system_text
from nano.curriculum.tool_sessions import tool_turn
from nano.documents import Encoder
from nano.places import EVALUATION, TOKENIZER


def _long_system(rng: Random) -> Conversation:
    conversation = tool_turn(rng, "call", many_tools=True)
    conversation.with_system(long_system_text(rng, 40, 160))
    return conversation


FAMILIES: dict[str, Callable[[Random], Conversation]] = {
    "call": lambda r: tool_turn(r, "call"),
    "call_many_tools": lambda r: tool_turn(r, "call", many_tools=True),
    "call_long_system": _long_system,
    "parallel": lambda r: tool_turn(r, "parallel"),
    "result": lambda r: tool_turn(r, "result"),
    "second_turn": lambda r: tool_turn(r, "second", held_out=True),
    "nocall": lambda r: tool_turn(r, "nocall", held_out=True),
    "missing_tool": lambda r: tool_turn(r, "missing"),
    "chat": lambda r: Conversation(said(small_talk(r))),
    "fact": lambda r: Conversation(said(held_out_fact(r))),
    "add2": lambda r: Conversation(said(two_digit_addition(r))),
    "arith": lambda r: Conversation(said(arithmetic(r))),
    "copy": lambda r: Conversation(said(copying(r))),
    "json": lambda r: Conversation(said(json_object(r))),
    "retrieval_short": lambda r: retrieval(r, 8),
    "retrieval_700": lambda r: retrieval(r, 48),
    "retrieval_1500": lambda r: retrieval(r, 100),
}


def held_out_set(rows: int, seed: int) -> dict[str, np.ndarray]:
    """`rows` of each family, every second one thinking; arrays as in the frozen set, nothing marked as passed."""
    rng, encoder = Random(seed), Encoder(TOKENIZER / "tokenizer.json")
    with np.load(EVALUATION) as golden:
        frozen = {tuple(golden[f"{name}/prompt"].tolist()) for name in golden["names"]}
    arrays: dict[str, np.ndarray] = {}
    families: list[str] = []
    names: list[str] = []
    for family, make in FAMILIES.items():
        while families.count(family) < rows:
            conversation = make(rng)
            conversation.is_thinking = families.count(family) % 2 == 1
            conversation.effort = "low" if families.count(family) % 4 == 1 else None
            prompt, answer = map(encoder.ids, render(conversation))
            if tuple(prompt) in frozen:
                continue
            names.append(f"{family}-{families.count(family):03d}")
            families.append(family)
            arrays[f"{names[-1]}/prompt"] = np.array(prompt, np.int16)
            arrays[f"{names[-1]}/answer"] = np.array(answer, np.int16)
    marks = np.zeros(len(names), bool)
    return {"names": np.array(names), "families": np.array(families), "nano_passes": marks, **arrays}


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw a held-out set in the frozen evaluation's families.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=10, help="of each family")
    parser.add_argument("--seed", type=int, default=5)
    arguments = parser.parse_args()
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    made = held_out_set(arguments.rows, arguments.seed)
    np.savez_compressed(arguments.file, **made)
    print(f"{arguments.file}: {len(made['names'])} rows")


if __name__ == "__main__":
    main()
