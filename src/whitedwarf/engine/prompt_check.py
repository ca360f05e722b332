"""Which prompts an engine takes at all: the one rule of the real and of the scripted engine."""

from collections.abc import Sequence

import numpy as np

from whitedwarf.engine.request import SamplingOptions
from whitedwarf.errors import ContextOverflowError, UsageError
from whitedwarf.model.base import Ids


def checked_prompt(ids: Sequence[int] | Ids, *, context_length: int, vocab_size: int) -> Ids:
    """`ids` as an array of our own.

    Raises UsageError (no token, no flat sequence of integers, an unknown id) and ContextOverflowError.
    """
    if len(ids) == 0:
        raise UsageError("the prompt is empty: expected at least one token, such as the begin-of-sentence token")
    if len(ids) >= context_length:
        raise ContextOverflowError(
            f"the prompt has {len(ids)} tokens and must be shorter than the context of {context_length}: "
            "shorten the prompt or raise --ctx"
        )
    prompt = np.asarray(ids)
    if prompt.ndim != 1 or prompt.dtype.kind not in "iu":
        raise UsageError(f"expected a flat sequence of token ids, got {prompt.dtype} values of shape {prompt.shape}")
    unknown = prompt[(prompt < 0) | (prompt >= vocab_size)]
    if unknown.size:
        raise UsageError(f"expected token ids from 0 to {vocab_size - 1}, got {unknown[0]}")
    return prompt.astype(np.int32)


def check_bias(sampling: SamplingOptions, vocab_size: int) -> None:
    """UsageError where a bias is for a token that the model does not have."""
    for token, _ in sampling.logit_bias:
        if not 0 <= token < vocab_size:
            raise UsageError(f"logit_bias: expected token ids from 0 to {vocab_size - 1}, got {token}")
