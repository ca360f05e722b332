"""The model's output as it stands, with no reading of thoughts or calls: what legacy Completions answers are made of.

Promises: the same feeding as `OutputParser` and the same kinds of events, of which only TextDelta and Finished occur;
control tokens show as they are spelt; a stop string is never shown, not even in part, and no control token is part of
one; UTF-8 split over ids waits until it is complete. Spec: product.md B.6, B.15.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from whitedwarf.conversation.events import BackendReason, Event, FinishReason
from whitedwarf.prompt.event_log import EventLog
from whitedwarf.prompt.marker_matcher import Pattern
from whitedwarf.prompt.output_segment import Segment, SegmentDecoder
from whitedwarf.prompt.parse_state import Rule, state
from whitedwarf.prompt.text_scanner import TextScanner
from whitedwarf.prompt.tokenizer import Tokenizer


class PlainOutput:
    """One output, fed ids (a tokenizer is needed), text, or both."""

    def __init__(self, stop_strings: Sequence[str] = (), tokenizer: Tokenizer | None = None) -> None:
        self._log = EventLog()
        self._scanner = TextScanner(self._log.mark)
        stops = [Rule(Pattern(text), partial(self._end, FinishReason.STOP_STRING, text)) for text in stop_strings]
        self._scanner.enter(state(stops, self._log.text, flushes=True))
        self._decoder = None if tokenizer is None else SegmentDecoder(tokenizer, holds_invalid=False)
        self.is_finished = False

    def feed_text(self, text: str, token_count: int = 1) -> list[Event]:
        """Events that this piece of text completes."""
        self._check_open()
        self._log.completion_tokens += token_count
        self._scanner.feed(Segment(text))
        return self._log.take()

    def feed_ids(self, ids: Iterable[int]) -> list[Event]:
        """Events that these ids complete; ids outside the vocabulary are no text."""
        self._check_open()
        if self._decoder is None:
            raise ValueError("ids came, but this output has no tokenizer: give it one, or feed text")
        self._feed_segments(self._decoder.feed(ids))
        return self._log.take()

    def finish(self, reason: BackendReason | None = None) -> list[Event]:
        """The last events; none when the output has ended before. No reason (a cut stream) is told as a plain stop."""
        if self.is_finished:
            return []
        if self._decoder is not None:
            self._feed_segments(self._decoder.finish())
        if not self.is_finished:
            self._scanner.finish()
            self._end(FinishReason.STOP if reason is None else FinishReason(reason.value))
        return self._log.take()

    def _check_open(self) -> None:
        if self.is_finished:
            raise ValueError("the output is finished and expects nothing more; another piece came")

    def _feed_segments(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            if self.is_finished:
                return
            self._log.count_ids(segment.token_span[1])
            self._scanner.feed(segment)

    def _end(self, reason: FinishReason, stop_string: str | None = None) -> None:
        self._scanner.close()
        self._log.finish(reason, stop_string)
        self.is_finished = True
