"""Scores of a collected set: each prompt as a chat without system text and without thinking, its continuation forced.

(spec/product.md E.4)
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import UserMessage
from whitedwarf.errors import ContextOverflowError, FileFormatError, WhitedwarfError
from whitedwarf.evals.score.case_files import Case
from whitedwarf.evals.score.likelihood import Forced, forced
from whitedwarf.evals.text_file import read_text
from whitedwarf.model.base import Model
from whitedwarf.prompt.encode_v4 import encode
from whitedwarf.prompt.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Score:
    """One case. `nll`: sum over its tokens, natural logarithm; `greedy_lcp`: with how many of its first tokens greedy
    decoding would begin, too."""

    id: str
    prompt_tokens: int
    target_tokens: int
    nll: float
    first_match: bool
    greedy_lcp: int

    @property
    def average_nll(self) -> float:
        return self.nll / self.target_tokens


@dataclass(frozen=True, slots=True)
class Total:
    """All cases together; averages over tokens, but `average_lcp` over cases."""

    cases: int
    tokens: int
    nll: float
    first_matches: int
    average_lcp: float

    @property
    def average_nll(self) -> float:
        return self.nll / self.tokens

    def as_json(self) -> dict[str, float | int]:
        return {
            "cases": self.cases,
            "target_tokens": self.tokens,
            "nll": self.nll,
            "avg_nll": self.average_nll,
            "ppl": math.exp(min(self.average_nll, 700.0)),
            "first_matches": self.first_matches,
            "avg_greedy_lcp": self.average_lcp,
        }


@dataclass(frozen=True, slots=True)
class Forcing:
    """A case as token ids."""

    id: str
    prompt: list[int]
    target: list[int]


def chat_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """A user's message, no system text, no thinking, up to where the answer begins."""
    return tokenizer.encode_segments(encode(Conversation((UserMessage(text),), is_thinking=False)).segments)


def read_cases(cases: Sequence[Case], tokenizer: Tokenizer, context_length: int) -> list[Forcing]:
    """All cases, before anything runs: FileFormatError for an empty one, ContextOverflowError for too long ones."""
    found = []
    for case in cases:
        prompt = chat_ids(tokenizer, read_text(case.prompt))
        target = tokenizer.encode(read_text(case.continuation))
        if not target:
            raise FileFormatError(f"{case.continuation}: the continuation of {case.id} is empty; expected some text")
        found.append(Forcing(case.id, prompt, target))
    needed = max(found, key=lambda case: len(case.prompt) + len(case.target))
    tokens = len(needed.prompt) + len(needed.target)
    if tokens > context_length:
        raise ContextOverflowError(f"{needed.id} has {tokens} tokens, the context is {context_length}: raise --ctx")
    return found


def measured(model: Model, cases: Sequence[Forcing], chunk_tokens: int) -> Iterator[Score]:
    """One score after the other."""
    for case in cases:
        yield _score(case, forced(model, case.prompt, case.target, chunk_tokens))


def total_of(scores: Sequence[Score]) -> Total:
    return Total(
        len(scores),
        sum(score.target_tokens for score in scores),
        math.fsum(score.nll for score in scores),
        sum(score.first_match for score in scores),
        sum(score.greedy_lcp for score in scores) / len(scores),
    )


def _score(case: Forcing, outcome: Forced) -> Score:
    nll = float(outcome.nll.sum())
    if not math.isfinite(nll):
        raise WhitedwarfError(
            f"{case.id}: the model's logits are no numbers; `whitedwarf gguf verify` tells whether its file is sound"
        )
    matches = outcome.is_likeliest
    lcp = len(matches) if matches.all() else int(matches.argmin())
    return Score(case.id, len(case.prompt), len(case.target), nll, bool(matches[0]), lcp)
