"""Generated ids to what a screen shows: pieces of thinking and of answer, without the tags between them.

Promises: the pieces are the same text whatever arrives when; a tag is never shown, not even in part, also when the
model spells it in ordinary tokens: text that may still become a tag waits. Does not know tool calls.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

_TAGS = (SpecialToken.THINK_OPEN, SpecialToken.THINK_CLOSE)
_TAG = re.compile("|".join(map(re.escape, _TAGS)))
_LONGEST_TAG = max(map(len, _TAGS))


@dataclass(frozen=True, slots=True)
class Piece:
    """A non-empty piece of text and whether it is a thought."""

    text: str
    is_thinking: bool


class AnswerSplitter:
    """One generation's ids, in order; `is_thinking` says how the prompt ended."""

    def __init__(self, tokenizer: Tokenizer, *, is_thinking: bool) -> None:
        self._decoder = tokenizer.stream_decoder()
        self._held = ""
        self.is_thinking = is_thinking

    def feed(self, token_id: int) -> list[Piece]:
        """What can be shown now, after this id."""
        self._held += self._decoder.feed(token_id)
        return list(self._take(len(self._held) - _tail_that_may_be_a_tag(self._held)))

    def finish(self) -> list[Piece]:
        """The rest: nothing can become a tag any more."""
        self._held += self._decoder.finish()
        return list(self._take(len(self._held)))

    def _take(self, end: int) -> Iterator[Piece]:
        ready, self._held = self._held[:end], self._held[end:]
        shown = 0
        for tag in _TAG.finditer(ready):
            yield from self._piece(ready[shown : tag.start()])
            self.is_thinking = tag.group() == SpecialToken.THINK_OPEN
            shown = tag.end()
        yield from self._piece(ready[shown:])

    def _piece(self, text: str) -> Iterator[Piece]:
        if text:
            yield Piece(text, self.is_thinking)


def _tail_that_may_be_a_tag(text: str) -> int:
    """Length of the longest end of `text` that begins a tag without being the whole of it."""
    for size in range(min(_LONGEST_TAG - 1, len(text)), 0, -1):
        tail = text[-size:]
        if any(tag.startswith(tail) and tag != tail for tag in _TAGS):
            return size
    return 0
