"""Reasoning, answer and JSON answer: the states before any block of calls (spec/recipe.md 12).

Promises: stop strings count only in the answer; leading newlines of a new thought or answer are dropped. What a block
of calls means is left to whoever gives `open_block`, what ends the answer to `stop`.
"""

from collections.abc import Callable, Sequence
from functools import partial

from whitedwarf.prompt.event_log import EventLog
from whitedwarf.prompt.marker_matcher import NEWLINE, Pattern, shared_matcher
from whitedwarf.prompt.markup import Markup
from whitedwarf.prompt.output_segment import Segment
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions, ParseStart
from whitedwarf.prompt.parse_state import Action, ParseState, Rule, drop, state
from whitedwarf.prompt.text_scanner import TextScanner

_FENCES = ("```json\n", "```\n")
_FENCE_END = "\n```"


class AnswerReader:
    """The states of one answer; `block_rules` are the markers of calls that reasoning and answer share."""

    def __init__(
        self,
        scanner: TextScanner,
        log: EventLog,
        markup: Markup,
        options: ParseOptions,
        *,
        stop: Callable[[str], None],
        block_rules: Sequence[Rule],
    ) -> None:
        self._scanner = scanner
        self._log = log
        self._options = options
        self._has_blank = False
        self.is_thinking = False
        stops = [Rule(Pattern(text), partial(stop, text)) for text in options.stop_strings]
        think_close = Pattern(markup.think_close)
        block = list(block_rules)
        end_thought = Rule(Pattern(markup.think_close, eats_newlines=True), self._end_thought)
        ignored = Rule(think_close, _nothing)
        self.reasoning = state([end_thought, *block], log.reasoning, flushes=True)
        self.content = state([*stops, ignored, *block], log.text, flushes=True, is_shared=not stops)
        blank = self._blank
        opened = [Rule(Pattern(fence), self._to_fence) for fence in _FENCES]
        opened += [Rule(Pattern(bracket), partial(self._to_bare, bracket)) for bracket in "{["]
        self.before_json = state([ignored, *block, *opened], blank, flushes=True)
        fence_end = Rule(Pattern(_FENCE_END), self._to_after_json)
        self._json = state([*stops, fence_end], log.text, flushes=True, is_shared=not stops)
        self._after_json = state(block, blank, flushes=True)
        stops_at_newline = [rule for rule in stops if rule.pattern.text == NEWLINE and not options.parse_json_output]
        self._thought_start = _dropping_newlines([], partial(scanner.enter, self.reasoning))
        self._answer_start = _dropping_newlines(stops_at_newline, self.go_on)

    def begin(self) -> None:
        """Enter the state that the prompt left the answer in."""
        first = {
            ParseStart.CONTENT: self._answer_start,
            ParseStart.REASONING: self._thought_start,
            ParseStart.REASONING_CONTINUED: self.reasoning,
            ParseStart.CONTENT_CONTINUED: self.before_json if self._options.parse_json_output else self.content,
        }
        self.is_thinking = self._options.start in (ParseStart.REASONING, ParseStart.REASONING_CONTINUED)
        self._scanner.enter(first[self._options.start])

    def go_on(self) -> None:
        """Enter (or come back to) the answer proper."""
        self._scanner.enter(self.before_json if self._options.parse_json_output else self.content)

    def resume(self) -> None:
        """Come back to where a block that was none interrupted."""
        if self.is_thinking:
            self._scanner.enter(self.reasoning)
        else:
            self.go_on()

    def _end_thought(self) -> None:
        self.is_thinking = False
        self._scanner.enter(self._answer_start)

    def _blank(self, text: str, segment: Segment, offset: int) -> None:
        """Officially every piece becomes a space, however the text was cut; salvage makes one of them all."""
        if self._options.mode is ParseMode.STRICT:
            self._log.text(" ", segment, offset)
        elif text and not self._has_blank:
            self._has_blank = True
            self._log.text(" ", segment, offset)

    def _to_fence(self) -> None:
        self._has_blank = False
        self._scanner.enter(self._json)

    def _to_bare(self, bracket: str) -> None:
        segment = self._scanner.marker_segment
        assert segment is not None
        self._log.text(bracket, segment, 0)
        self._has_blank = False
        self._scanner.enter(self._json)

    def _to_after_json(self) -> None:
        self._scanner.enter(self._after_json)


def _dropping_newlines(rules: list[Rule], then: Action) -> ParseState:
    return ParseState(shared_matcher(()), tuple([rule.action for rule in rules]), drop, after_newlines=then)


def _nothing() -> None:
    """The marker only vanishes."""
