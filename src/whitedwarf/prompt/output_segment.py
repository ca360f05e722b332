"""A piece of output with its place in the whole, and how text pieces and token ids become such pieces.

Promises: one segment per text piece; of ids one per run of ordinary ids and one per control token. In an id stream a
control token is one character that no text can contain, so nothing an ordinary token spells is ever taken for one.
UTF-8 split over ids waits until the character is complete; what is not UTF-8 becomes U+FFFD.
"""

import codecs
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from whitedwarf.prompt.special import GROUNDING_TOKENS, SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

# Lone surrogates: decoded UTF-8 never contains one.
CONTROL_OTHER = "\udc00"
CONTROL_THINK_CLOSE = "\udc01"
CONTROL_DSML = "\udc02"
CONTROL_GROUNDING = "\udc03"
CONTROL_THINK_OPEN = "\udc04"
REPLACEMENT = "\ufffd"
_STAND_INS = {
    SpecialToken.THINK_OPEN.value: CONTROL_THINK_OPEN,
    SpecialToken.THINK_CLOSE.value: CONTROL_THINK_CLOSE,
    SpecialToken.DSML.value: CONTROL_DSML,
    **{token.value: CONTROL_GROUNDING for token in GROUNDING_TOKENS},
}


@dataclass(slots=True)
class Segment:
    """`text` is what markers are looked for in, `spelling` what a control token shows as (None for ordinary text).

    `start`: where in the whole output it begins.
    `id_starts`: where the text of each id begins in `text`; None for a text piece.
    """

    text: str
    token_span: tuple[int, int] = (0, 0)
    spelling: str | None = None
    id_starts: list[int] | None = None
    start: int = 0

    def tokens_between(self, begin: int, end: int) -> int:
        """How many tokens the part of `text` counts for: a text piece is one, whatever its size."""
        if self.id_starts is None:
            return 1
        return sum(begin <= at < end for at in self.id_starts)


class SegmentDecoder:
    """Token ids to segments; ids outside the vocabulary are empty text.

    `holds_invalid` is the official habit: as long as the text ends in U+FFFD, right or wrong, nothing of it is given
    out, and what is held at the end is lost.
    """

    def __init__(self, tokenizer: Tokenizer, *, holds_invalid: bool) -> None:
        self._bytes_of = tokenizer.token_bytes
        self._vocab_size = tokenizer.vocab_size
        self._spellings = {token_id: spelling for spelling, token_id in tokenizer.vocabulary.special_ids.items()}
        self._holds_invalid = holds_invalid
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: list[str] = []  # the text of each id that waits
        self._until_text = 0  # how many of these there are up to the last that is not empty
        self.taken = 0  # ids whose text has been given out

    def feed(self, ids: Iterable[int]) -> list[Segment]:
        """The segments that these ids complete."""
        segments: list[Segment] = []
        for token_id in ids:
            spelling = self._spellings.get(token_id)
            if spelling is None:
                known = 0 <= token_id < self._vocab_size
                self._hold(self._utf8.decode(self._bytes_of(token_id)) if known else "")
                continue
            self._flush(segments)
            segments.append(Segment(_STAND_INS.get(spelling, CONTROL_OTHER), self._span(1), spelling, [0]))
        self._give(segments, self._settled_ids())
        return segments

    def finish(self) -> list[Segment]:
        """What still waits, unless the official habit lets it go: U+FFFD for an incomplete character."""
        segments: list[Segment] = []
        if not self._holds_invalid:
            self._flush(segments)
        return segments

    def _hold(self, text: str) -> None:
        self._held.append(text)
        if text:
            self._until_text = len(self._held)

    def _settled_ids(self) -> int:
        """How many held ids can be given out: up to the last that completed a character, or officially all or none."""
        held, until_text = self._held, self._until_text
        if not until_text:
            return 0
        is_whole = not self._utf8.getstate()[0]
        if self._holds_invalid:
            return len(held) if is_whole and not held[until_text - 1].endswith(REPLACEMENT) else 0
        return len(held) if is_whole else until_text

    def _flush(self, segments: list[Segment]) -> None:
        tail = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        if self._held:
            self._held[-1] += tail
            self._give(segments, len(self._held))
        elif tail:  # of an id whose other text has been given out
            segments.append(Segment(tail, self._span(0), None, []))

    def _give(self, segments: list[Segment], count: int) -> None:
        if not count:
            return
        texts = self._held[:count]
        segment = Segment("".join(texts), self._span(count), None, [0, *accumulate(map(len, texts[:-1]))])
        if segment.text:
            segments.append(segment)
        del self._held[:count]
        self._until_text = max(0, self._until_text - count)

    def _span(self, size: int) -> tuple[int, int]:
        span = (self.taken, self.taken + size)
        self.taken += size
        return span
