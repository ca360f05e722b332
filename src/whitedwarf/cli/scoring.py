"""Running known ids through a model, without an engine: the instruments' common part."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from whitedwarf.errors import ContextOverflowError, FileFormatError, UsageError
from whitedwarf.model.base import LogitRows, Logits, Model, Span


def read_ids(path: Path) -> list[int]:
    """A JSON list of token ids, not empty."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: expected a JSON list of token ids, but it is not JSON ({error})") from error
    if not isinstance(value, list) or not value or not all(type(item) is int for item in value):
        raise FileFormatError(f"{path}: expected a JSON list of at least one token id, such as [0, 128803, 19923]")
    return value


def check_fits(num_tokens: int, context_length: int) -> None:
    """ContextOverflowError when there are more tokens than the context holds."""
    if num_tokens > context_length:
        raise ContextOverflowError(
            f"{num_tokens} tokens do not fit in the context of {context_length}: raise --ctx or give fewer"
        )


def logit_chunks(
    model: Model, ids: Sequence[int], chunk_tokens: int, *, only_last: bool = False
) -> Iterator[tuple[int, Logits]]:
    """Run `ids` from zero; per chunk, how many ids are done and the logits after each (or only after the very last)."""
    vocab_size = model.config.vocab_size
    unknown = [token_id for token_id in ids if not 0 <= token_id < vocab_size]
    if unknown:
        raise UsageError(f"expected token ids from 0 to {vocab_size - 1}, got {unknown[0]}")
    state = model.new_state()
    for start in range(0, len(ids), chunk_tokens):
        piece = np.array(ids[start : start + chunk_tokens], np.int32)
        done = start + len(piece)
        wanted: LogitRows = "all" if not only_last else "last" if done == len(ids) else "none"
        (logits,) = model.forward([Span(state, piece, wanted)])
        yield done, logits
