"""The ids of text that was tokenised before: an agent sends its whole history again with every turn.

Promises: the same ids as without it, for an entry is found by its very text and text is cut only where the tokenizer
cuts in any case. Does not know control tokens, nor what a conversation is.
"""

import re
import sys

from whitedwarf.prompt.bounded_cache import BoundedCache

DEFAULT_CAPACITY_BYTES = 64 << 20  # some fifty histories of 100,000 tokens
PIECE_LENGTH = 4096  # characters; a text that grew at its end is tokenised again from its last cut

# No word of the pre-tokenizer (tokenizer.py) holds a line end and a character after it that is not blank, and none
# looks further: blanks are matched up to their last line end whatever follows, signs take line ends only behind them,
# and numbers and ideographs are cut out beforehand. Both halves have the words that they have together.
_CUT = re.compile(r"\n(?=\S)")


def pieces(text: str, length: int = PIECE_LENGTH) -> list[str]:
    """The text in pieces of about that length whose ids stand one after the other in its own ids.

    The first pieces stay the same when the text grows at its end.
    """
    if len(text) <= length:
        return [text]
    found: list[str] = []
    start = 0
    while len(text) - start > length and (cut := _CUT.search(text, start + length)):
        found.append(text[start : cut.end()])
        start = cut.end()
    found.append(text[start:])
    return found


class SegmentCache(BoundedCache[str, list[int]]):
    """Ids by text."""

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        super().__init__(capacity_bytes, _size_bytes)


def _size_bytes(text: str, ids: list[int]) -> int:
    # The int objects are the encoder's own, one for each token of the vocabulary.
    return sys.getsizeof(text) + sys.getsizeof(ids)
