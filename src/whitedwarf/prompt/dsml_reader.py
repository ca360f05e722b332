"""A block of DSML calls to call events, exactly as the official parser does it (spec/recipe.md 12).

Promises: argument fragments come live and are the official ones; nothing is repaired, so names and values that break
the JSON break it here too. See dsml_salvage.py for the reader that repairs.
"""

from whitedwarf.prompt.event_log import EventLog
from whitedwarf.prompt.json_text import escaped
from whitedwarf.prompt.marker_matcher import Pattern
from whitedwarf.prompt.markup import BLOCK_ENDS, CLOSE_TAG, OPEN_TAG
from whitedwarf.prompt.output_segment import Segment
from whitedwarf.prompt.parse_state import Rule, drop, state
from whitedwarf.prompt.text_scanner import TextScanner


class DsmlReader:
    """The states from the opening of a block to the end of the answer."""

    def __init__(self, scanner: TextScanner, log: EventLog) -> None:
        self._scanner = scanner
        self._log = log
        self._name: list[str] = []
        self._has_parameters = False
        close_tag = Pattern(CLOSE_TAG)
        done = [Rule(pattern, self._to_done) for pattern in BLOCK_ENDS]
        self._block = state([Rule(Pattern('invoke name="'), self._to_name), *done], drop)
        self._call_name = state([Rule(Pattern('"'), self._start_call)], self._collect_name)
        self._body = state([Rule(Pattern("parameter name="), self._to_key), Rule(close_tag, self._end_call)], drop)
        self._key = state([Rule(Pattern(" "), self._to_attribute)], self._verbatim, flushes=True)
        kinds = [Rule(Pattern('true">'), self._to_string), Rule(Pattern('false">'), self._to_json)]
        self._attribute = state(kinds, drop)
        self._string = state([Rule(close_tag, self._end_string)], self._escaped, flushes=True)
        self._json = state([Rule(close_tag, self._to_body)], self._verbatim, flushes=True)
        self._done = state([], drop)

    def open_block(self) -> None:
        """The block was opened."""
        self._log.call_since = self._log.completion_tokens
        self._scanner.enter(self._block)

    def content_rules(self) -> list[Rule]:
        """What in reasoning or answer leads here."""
        return [Rule(Pattern(OPEN_TAG, eats_newlines=True), self.open_block)]

    def finish(self, *, is_complete: bool) -> None:
        """The output ended: an open call stays open."""

    def _to_done(self) -> None:
        self._log.call_since = None
        self._scanner.enter(self._done)

    def _to_name(self) -> None:
        self._name.clear()
        self._scanner.enter(self._call_name)

    def _collect_name(self, text: str, segment: Segment, offset: int) -> None:
        self._name.append(text)

    def _start_call(self) -> None:
        self._log.start_call("".join(self._name))
        self._has_parameters = False
        self._to_body()

    def _to_body(self) -> None:
        self._scanner.enter(self._body)

    def _to_key(self) -> None:
        self._log.arguments(", " if self._has_parameters else "{")
        self._has_parameters = True
        self._scanner.enter(self._key)

    def _end_call(self) -> None:
        self._log.arguments("}" if self._has_parameters else "{}")
        self._log.finish_call()
        self.open_block()

    def _to_attribute(self) -> None:
        self._log.arguments(": ")
        self._scanner.enter(self._attribute)

    def _to_string(self) -> None:
        self._log.arguments('"')
        self._scanner.enter(self._string)

    def _end_string(self) -> None:
        self._log.arguments('"')
        self._to_body()

    def _to_json(self) -> None:
        self._scanner.enter(self._json)

    def _verbatim(self, text: str, segment: Segment, offset: int) -> None:
        self._log.arguments(text)

    def _escaped(self, text: str, segment: Segment, offset: int) -> None:
        self._log.arguments(escaped(text))
