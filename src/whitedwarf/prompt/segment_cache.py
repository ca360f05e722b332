"""The ids of text that was tokenised before: an agent sends its whole history again with every turn.

Promises: the same ids as without it, for an entry is found by its very text and text is cut only where the tokenizer
cuts in any case; never more than `capacity_bytes` kept, the longest unused going first; may be shared between threads.
Does not know control tokens, nor what a conversation is.
"""

import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

Encode = Callable[[list[str]], list[list[int]]]

DEFAULT_CAPACITY_BYTES = 64 << 20  # some fifty histories of 100,000 tokens
PIECE_LENGTH = 4096  # characters; a text that grew at its end is tokenised again from its last cut
LARGEST_PART = 8  # text that would take more than this part of the capacity is not kept: it would drive out the rest
ENTRY_BYTES = 300  # of the entry itself and the dictionary's place for it

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


class SegmentCache:
    """Ids by text."""

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self.capacity_bytes = capacity_bytes
        self.size_bytes = 0
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # the longest unused first

    def __len__(self) -> int:
        return len(self._entries)

    def encode(self, texts: Sequence[str], encode: Encode) -> list[list[int]]:
        """The ids of each text, to be read only; those not known are asked of `encode`, all at once."""
        found = self._find(texts)
        unknown = [text for text in dict.fromkeys(texts) if text not in found]
        if unknown:
            made = encode(unknown)  # not under the lock: others need not wait for it
            self._keep(unknown, made)
            found.update(zip(unknown, made, strict=True))
        return [found[text] for text in texts]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self.size_bytes = 0

    def _find(self, texts: Sequence[str]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        entries = self._entries
        with self._lock:
            for text in texts:
                if (entry := entries.get(text)) is not None:
                    entries.move_to_end(text)
                    found[text] = entry.ids
        return found

    def _keep(self, texts: list[str], made: list[list[int]]) -> None:
        with self._lock:
            for text, ids in zip(texts, made, strict=True):
                entry = _Entry(ids, _size_bytes(text, ids))
                if text not in self._entries and entry.size_bytes <= self.capacity_bytes // LARGEST_PART:
                    self._entries[text] = entry
                    self.size_bytes += entry.size_bytes
            while self.size_bytes > self.capacity_bytes:
                _, oldest = self._entries.popitem(last=False)
                self.size_bytes -= oldest.size_bytes


class _Entry(NamedTuple):
    ids: list[int]
    size_bytes: int  # as it was counted: that of a text can change when somebody asks for its UTF-8


def _size_bytes(text: str, ids: list[int]) -> int:
    # The int objects are the encoder's own, one for each token of the vocabulary.
    return sys.getsizeof(text) + sys.getsizeof(ids) + ENTRY_BYTES
