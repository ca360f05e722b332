"""Answers of allowed tokens at random, as a model would give that knows nothing."""

import random
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from whitedwarf.prompt.grammar import Grammar, Mask
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

MANY = 600  # tokens: an answer that is longer only had bad luck with where a string ends
CLOSERS = ('"', "}", "]", ",", ":", "0")


def allowed(mask: Mask, tokenizer: Tokenizer) -> npt.NDArray[np.bool_]:
    """Whether each token may come."""
    return np.unpackbits(mask, count=tokenizer.vocab_size, bitorder="little").view(np.bool_)


def drawn_ids(
    grammar: Grammar, tokenizer: Tokenizer, seed: int, closers: Sequence[str] = CLOSERS, closing: Sequence[int] = ()
) -> list[int] | None:
    """A whole answer, with some will to come to an end: `closers` and `closing`; None where it did not."""
    dice, matcher, ids = random.Random(seed), grammar.matcher(), list[int]()
    end = tokenizer.special_id(SpecialToken.EOS)
    preferred = np.zeros(tokenizer.vocab_size, np.bool_)
    preferred[[*closing, *(token for text in closers for token in tokenizer.encode(text))]] = True
    while not matcher.is_over and len(ids) < MANY:
        may_come = allowed(matcher.mask(), tokenizer)
        choices = np.flatnonzero(may_come)
        if dice.random() < 0.5 and (may_come & preferred).any():
            choices = np.flatnonzero(may_come & preferred)
        assert choices.size, tokenizer.decode(ids)
        token = int(dice.choice(choices))
        if token == end:
            return ids
        matcher.accept(token)
        ids.append(token)
    return ids if matcher.is_over else None


def may_be(grammar: Grammar, tokenizer: Tokenizer, ids: Sequence[int]) -> bool:
    """Whether the answer may be this and end there."""
    matcher = grammar.matcher()
    for token in ids:
        if not allowed(matcher.mask(), tokenizer)[token]:
            return False
        matcher.accept(token)
    return matcher.is_over or bool(allowed(matcher.mask(), tokenizer)[tokenizer.special_id(SpecialToken.EOS)])
