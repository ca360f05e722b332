"""Plain text to token ids by the native encoder: words cut and merged in C++, without the GIL.

Promises the ids of Hugging Face's tokenizers (see tokenizer.py, whose tests compare the two), in time that grows with
the text and not with its content; may be shared between threads. Does not know control tokens.
"""

from collections.abc import Iterable
from typing import Protocol

from whitedwarf.errors import FileFormatError
from whitedwarf.prompt.vocabulary import BYTE_OF, MERGES_KEY, Vocabulary

_ALPHABET = sorted(BYTE_OF, key=BYTE_OF.__getitem__)


class PlainEncoder(Protocol):
    """Text to ids, no text being more than text."""

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The ids of each text, which holds no lone surrogates. Takes the GIL only to read and to answer."""


def native_encoder(vocabulary: Vocabulary) -> PlainEncoder | None:
    """The native encoder; None where the native module was not built. FileFormatError names a wrong merge."""
    try:
        from whitedwarf._native import BytePairs
    except ImportError:
        return None
    try:
        return BytePairs(dict(vocabulary.text_ids), _ALPHABET, vocabulary.merges)
    except ValueError as error:
        check_merges(vocabulary, error)
        raise


def check_merges(vocabulary: Vocabulary, cause: Exception) -> None:
    """FileFormatError if a merge names or makes what is no text token."""
    bad = vocabulary.first_bad_merge()
    if bad is None:
        return
    rank, token = bad
    line = " ".join(vocabulary.merges[rank])
    raise FileFormatError(
        f"{MERGES_KEY}[{rank}] is {line!r}, but {token!r} is no text token of this vocabulary"
    ) from cause


def well_formed(texts: Iterable[str]) -> list[str]:
    """The texts, with U+FFFD for each lone surrogate."""
    return [_well_formed(text) for text in texts]


def _well_formed(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
