"""Reasoning, answer and JSON answer: the states before any block of calls (spec/recipe.md 12).

Promises: stop strings count only in the answer; leading newlines of a new thought or answer are dropped; control tokens
that mean nothing in an answer vanish, officially they are shown. Where nobody asked for a thought, one that the answer
begins with (`<think>` up to `</think>` or the end) is reasoning and no answer; officially it is shown. What a block of
calls means is left to `block_rules`, what ends the answer to `stop`.
"""

from collections.abc import Callable, Sequence
from functools import partial

from whitedwarf.conversation.events import RepairKind
from whitedwarf.prompt.event_log import EventLog
from whitedwarf.prompt.marker_matcher import NEWLINE, Matcher, Pattern
from whitedwarf.prompt.markup import STRAY, THINK_CLOSE, THINK_OPEN
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
        options: ParseOptions,
        *,
        stop: Callable[[str], None],
        block_rules: Sequence[Rule],
    ) -> None:
        self._scanner = scanner
        self._log = log
        self._options = options
        self._is_salvage = options.mode is ParseMode.SALVAGE
        self._has_blank = False
        self.is_thinking = False
        self._is_in_json = False
        stops = [Rule(Pattern(text), partial(stop, text)) for text in options.stop_strings]
        stops_at_newline = [rule for rule in stops if rule.pattern.text == NEWLINE and not options.parse_json_output]
        self._thought_start = _dropping_newlines([], self._to_reasoning)
        self._answer_start = _dropping_newlines(stops_at_newline, self.go_on)
        strays = self._stray_rules() if self._is_salvage else []
        ignored = [Rule(Pattern(THINK_CLOSE), _nothing), *strays]
        end_thought = Rule(Pattern(THINK_CLOSE, eats_newlines=True), self._end_thought)
        self.reasoning = state([end_thought, *block_rules, *strays], log.reasoning, flushes=True)
        self.content = state([*stops, *ignored, *block_rules], log.text, flushes=True)
        self._make_json_states(stops, ignored, block_rules)

    def _stray_rules(self) -> list[Rule]:
        return [Rule(Pattern(THINK_OPEN), self._open_thought), Rule(STRAY, self._drop_stray)]

    def _make_json_states(self, stops: Sequence[Rule], ignored: Sequence[Rule], block_rules: Sequence[Rule]) -> None:
        """Officially nothing but a stop string or the fence ends the JSON: calls and control tokens in it are shown."""
        opened = [Rule(Pattern(fence), self._to_json) for fence in _FENCES]
        opened += [Rule(Pattern(bracket), partial(self._to_bare, bracket)) for bracket in "{["]
        self.before_json = state([*ignored, *block_rules, *opened], self._blank, flushes=True)
        inner = [*stops, Rule(Pattern(_FENCE_END), self._to_after_json)]
        if self._is_salvage:
            inner += [*ignored, *block_rules]
        self._json = state(inner, self._log.text, flushes=True)
        self._after_json = state(block_rules, self._blank, flushes=True)

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
            self._to_reasoning()
        elif self._is_in_json:
            self._scanner.enter(self._json)
        else:
            self.go_on()

    def _to_reasoning(self) -> None:
        self._scanner.enter(self.reasoning)

    def _end_thought(self) -> None:
        self.is_thinking = False
        self._scanner.enter(self._answer_start)

    def _blank(self, text: str, segment: Segment, offset: int) -> None:
        """Officially every piece becomes a space, however the text was cut; salvage makes one of them all."""
        if not self._is_salvage:
            self._log.text(" ", segment, offset)
        elif text and not self._has_blank:
            self._has_blank = True
            self._log.text(" ", segment, offset)

    def _to_json(self) -> None:
        self._has_blank = False
        self._is_in_json = True
        self._scanner.enter(self._json)

    def _to_bare(self, bracket: str) -> None:
        segment = self._scanner.marker_segment
        assert segment is not None
        self._log.text(bracket, segment, 0)
        self._to_json()

    def _open_thought(self) -> None:
        """A thought may only stand where the answer begins; anywhere else its opening is a token out of place."""
        is_first = not (self.is_thinking or self._is_in_json or self._log.has_text)
        if self._options.start is ParseStart.CONTENT and is_first:
            self._log.repair(RepairKind.UNASKED_THOUGHT)
            self.is_thinking = True
            self._scanner.enter(self._thought_start)
        else:
            self._drop_stray()

    def _drop_stray(self) -> None:
        self._log.repair(RepairKind.STRAY_MARKUP)

    def _to_after_json(self) -> None:
        self._is_in_json = False
        self._scanner.enter(self._after_json)


def _dropping_newlines(rules: list[Rule], then: Action) -> ParseState:
    return ParseState(Matcher(()), tuple([rule.action for rule in rules]), drop, after_newlines=then)


def _nothing() -> None:
    """The marker only vanishes."""
