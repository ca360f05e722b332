"""The model's output, token by token, to typed events: reasoning, text, tool calls, the end.

Promises: whatever the pieces, the same events add up; a stop string is never shown, not even in part; control tokens
count only as tokens in ids, by their spelling in text. `ParseMode.STRICT` is DeepSeek's own parser
to the letter, `SALVAGE` repairs and counts. Does not know any protocol. Spec: recipe.md 12.
"""

from collections.abc import Iterable, Sequence

from whitedwarf.conversation.events import BackendReason, Event, FinishReason, RepairKind
from whitedwarf.prompt.answer_reader import AnswerReader
from whitedwarf.prompt.dsml_reader import DsmlReader
from whitedwarf.prompt.dsml_salvage import SalvageReader
from whitedwarf.prompt.event_log import EventLog
from whitedwarf.prompt.output_segment import Segment, SegmentDecoder
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions
from whitedwarf.prompt.parse_state import Rule
from whitedwarf.prompt.text_scanner import TextScanner
from whitedwarf.prompt.tokenizer import Tokenizer


class OutputParser:
    """One answer, fed ids (a tokenizer is needed), text, or both.

    Half a character at the end of some ids waits for more ids; text that comes before these overtakes it: so it is
    officially.
    """

    def __init__(self, options: ParseOptions, tokenizer: Tokenizer | None = None) -> None:
        self._options = options
        self._tokenizer = tokenizer
        self._log = EventLog()
        self._scanner = TextScanner(self._log.mark)
        self._decoder: SegmentDecoder | None = None
        self.is_finished = False
        self.has_text = False
        """Whether any piece was text; ids of an unfinished character, or of no text, are none."""
        self._calls = self._salvage() if options.mode is ParseMode.SALVAGE else self._strict()

    @property
    def repairs(self) -> dict[RepairKind, int]:
        """How often each repair was made."""
        return dict(self._log.repairs)

    def feed_text(self, text: str, token_count: int = 1) -> list[Event]:
        """Events that this piece of text completes."""
        self._check_open()
        self.has_text = True
        self._log.completion_tokens += token_count
        self._scanner.feed(Segment(text))
        return self._taken()

    def feed_ids(self, ids: Iterable[int]) -> list[Event]:
        """Events that these ids complete; ids outside the vocabulary are no text."""
        self._check_open()
        if self._decoder is None:
            self._decoder = self._new_decoder()
        self._feed_segments(self._decoder.feed(ids))
        return self._taken()

    def finish(self, reason: BackendReason | None = None) -> list[Event]:
        """The last events; none when the answer has ended before. No reason (a cut stream) is told as a plain stop."""
        if self.is_finished:
            return []
        if self._decoder is not None:
            self._feed_segments(self._decoder.finish())
        if not self.is_finished:
            self._scanner.finish()
            self._calls.finish(is_complete=reason is BackendReason.STOP)
            self._end(self._reason(reason))
        return self._log.take()

    def _taken(self) -> list[Event]:
        since, limit = self._log.call_since, self._options.max_call_tokens
        if limit is not None and since is not None and self._log.completion_tokens - since > limit:
            self._log.repair(RepairKind.RUNAWAY_CALL)
            self._end(FinishReason.LENGTH)
        return self._log.take(without_latest=self._scanner.is_undecided and not self.is_finished)

    def _check_open(self) -> None:
        if self.is_finished:
            raise ValueError("the answer is finished and expects nothing more; another piece came")

    def _new_decoder(self) -> SegmentDecoder:
        if self._tokenizer is None:
            raise ValueError("ids came, but this parser has no tokenizer: give it one, or feed text")
        return SegmentDecoder(self._tokenizer, holds_invalid=self._options.mode is ParseMode.STRICT)

    def _strict(self) -> DsmlReader:
        calls = DsmlReader(self._scanner, self._log)
        self._enter_first(self._answer(calls.content_rules() if self._options.parse_tool_calls else []), calls)
        return calls

    def _salvage(self) -> SalvageReader:
        calls = SalvageReader(self._scanner, self._log, is_wanted=self._options.parse_tool_calls)
        calls.answer = self._answer(calls.content_rules())
        self._enter_first(calls.answer, calls)
        return calls

    def _answer(self, rules: list[Rule]) -> AnswerReader:
        return AnswerReader(self._scanner, self._log, self._options, stop=self._stop, block_rules=rules)

    def _enter_first(self, answer: AnswerReader, calls: DsmlReader | SalvageReader) -> None:
        if self._options.starts_in_tool_calls:
            calls.open_block()
        else:
            answer.begin()

    def _feed_segments(self, segments: Sequence[Segment]) -> None:
        for segment in segments:
            if self.is_finished:
                return
            self.has_text = True
            self._log.count_ids(segment.token_span[1])
            self._scanner.feed(segment)

    def _reason(self, reason: BackendReason | None) -> FinishReason:
        if reason is None:
            return FinishReason.STOP
        strict = self._options.mode is ParseMode.STRICT
        calls = self._log.calls_started if strict else self._log.calls_finished
        if reason is BackendReason.STOP and calls:
            return FinishReason.TOOL_CALLS
        return FinishReason(reason.value)

    def _stop(self, text: str) -> None:
        self._end(FinishReason.STOP_STRING, text)

    def _end(self, reason: FinishReason, stop_string: str | None = None) -> None:
        self._scanner.close()
        if self._options.mode is ParseMode.STRICT and self._tokenizer is not None:
            self._log.reasoning_tokens = self._tokenizer.count_spelt(self._log.thought)
        self._log.finish(reason, stop_string)
        self.is_finished = True
