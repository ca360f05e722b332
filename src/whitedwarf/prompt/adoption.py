"""A prompt that begins with given ids: those of a saved state, which may split the same text otherwise.

Promises: the result reads exactly as the canonical prompt does, control tokens at the same places, and begins with the
held ids; None where the two differ. Only text that the held ids do not cover is tokenised (spec/product.md B.12).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whitedwarf.prompt.tokenizer import Ids, Tokenizer


@dataclass(frozen=True, slots=True)
class Reading:
    """Ids with the place of each in the text they spell."""

    ids: Ids
    text: bytes
    ends: npt.NDArray[np.int64]  # of each id, in bytes
    controls: npt.NDArray[np.int64]  # indices of control tokens

    @classmethod
    def of(cls, ids: Ids, tokenizer: Tokenizer) -> "Reading":
        """Raises ValueError for an id outside the vocabulary."""
        pieces = [tokenizer.token_bytes(token) for token in ids.tolist()]
        special = np.array(list(tokenizer.vocabulary.special_ids.values()), np.int32)
        ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
        return cls(ids, b"".join(pieces), ends, np.flatnonzero(np.isin(ids, special)))

    def controls_within(self, size: int) -> tuple[npt.NDArray[np.int64], Ids]:
        """Ends and ids of the control tokens in the first `size` bytes."""
        within = self.controls[self.ends[self.controls] <= size]
        return self.ends[within], self.ids[within]

    def next_control(self, size: int) -> int:
        """Index of the first control token that begins at or behind this many bytes; the number of ids if none."""
        behind = self.controls[self.ends[self.controls] > size]
        return int(behind[0]) if len(behind) else len(self.ids)

    def start_of(self, index: int) -> int:
        """Where an id begins."""
        return int(self.ends[index - 1]) if index else 0


def continued(canonical: Reading, held: Ids, tokenizer: Tokenizer) -> Ids | None:
    """The ids of the canonical prompt that begin with `held`; None when it does not begin with what they read as."""
    if np.array_equal(canonical.ids[: len(held)], held):
        return canonical.ids
    start = Reading.of(held, tokenizer)
    size = len(start.text)
    if not canonical.text.startswith(start.text) or not _same_controls(canonical, start, size):
        return None
    following = canonical.next_control(size)
    rest = canonical.text[size : canonical.start_of(following)]
    try:
        text = rest.decode()
    except UnicodeDecodeError:  # the held ids end within a character
        return None
    return np.concatenate([held, np.array(tokenizer.encode(text), np.int32), canonical.ids[following:]])


def _same_controls(canonical: Reading, start: Reading, size: int) -> bool:
    (ends, ids), (other_ends, other_ids) = canonical.controls_within(size), start.controls_within(size)
    return np.array_equal(ends, other_ends) and np.array_equal(ids, other_ids)
