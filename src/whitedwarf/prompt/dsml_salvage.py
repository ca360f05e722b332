"""A block of DSML calls to call events, repairing what models get wrong and counting it (demand.md P01-P07).

Promises: finished calls have valid JSON objects as arguments; well-formed blocks give the official ones; a call that
was cut off is never closed; whatever the model writes nothing is raised, and no markup of a recognised block is shown.
A block without a call gives the answer back. Calls that nobody asked for (`is_wanted` false) vanish. The calls in it:
salvage_call.py.
"""

import re
from collections.abc import Callable

from whitedwarf.conversation.events import RepairKind
from whitedwarf.prompt.answer_reader import AnswerReader
from whitedwarf.prompt.event_log import EventLog
from whitedwarf.prompt.marker_matcher import Pattern
from whitedwarf.prompt.markup import CLOSE_TAG, DSML, OPEN_TAG
from whitedwarf.prompt.output_segment import Segment
from whitedwarf.prompt.parse_state import Rule, drop, limited_state, state
from whitedwarf.prompt.salvage_call import BLOCK_TAGS, INVOKE, SalvageCall
from whitedwarf.prompt.text_scanner import TextScanner

_TAG_LIMIT = 32  # characters of a tag after its DSML token; longer is prose
_TAG = re.compile(r" ?[\w-]*( [\w-]*)?( name=.*)?", re.DOTALL)  # after its DSML token, whole or not; else it is prose


class SalvageReader:
    """The states from the opening of a block to the end of the answer; `answer` is set before anything is read."""

    answer: AnswerReader

    def __init__(self, scanner: TextScanner, log: EventLog, *, is_wanted: bool) -> None:
        self._scanner = scanner
        self._log = log
        self._is_wanted = is_wanted
        self._calls = log if is_wanted else EventLog()
        self._call = SalvageCall(scanner, log, self._calls, self)
        self._text: list[str] = []
        self._has_call = False
        self._closed_by: Callable[[str], None] = self._close_block
        self._block = state([Rule(INVOKE, self._call.begin), Rule(Pattern(CLOSE_TAG), self._to_own_closer)], drop)
        self._done = state([], drop)
        self._make_tags()

    def _make_tags(self) -> None:
        opening = [Rule(Pattern(">"), self._opened), Rule(INVOKE, self._open_by_call)]
        closing, stray = [Rule(Pattern(">"), self._closed)], [Rule(Pattern(">"), self._resume)]
        self._opener = limited_state(opening, self._collect, _TAG_LIMIT, self._not_an_opener, may_precede=_is_tag)
        self._closer = limited_state(closing, self._collect, _TAG_LIMIT, self._not_a_closer, may_precede=_is_any)
        self._stray = limited_state(stray, drop, _TAG_LIMIT, self._resume, may_precede=_is_tag)

    def content_rules(self) -> list[Rule]:
        """What in reasoning or answer leads here: an opening tag, one that lost its `<`, a closing tag out of place."""
        return [
            Rule(Pattern(OPEN_TAG, eats_newlines=True), self._to_opener),
            Rule(Pattern(CLOSE_TAG), self._to_stray),
            Rule(Pattern(DSML), self._to_opener),
        ]

    def open_block(self) -> None:
        """The block was opened."""
        self._log.call_since = self._log.completion_tokens
        self._has_call = False
        self.enter()

    def finish(self, *, is_complete: bool) -> None:
        """The output ended; see `SalvageCall.finish`."""
        self._call.finish(is_complete=is_complete)

    def _repair(self, kind: RepairKind) -> None:
        self._log.repair(kind)

    def _collect(self, text: str, segment: Segment, offset: int) -> None:
        self._text.append(text)

    def _collected(self) -> str:
        text = "".join(self._text)
        self._text.clear()
        return text

    def _resume(self) -> None:
        self._log.call_since = None
        self.answer.resume()

    def _to_own_closer(self) -> None:
        self.to_closer(self._close_block)

    def _to_opener(self) -> None:
        self._log.call_since = self._log.completion_tokens
        self._text.clear()
        self._scanner.enter(self._opener)

    def _to_stray(self) -> None:
        self._repair(RepairKind.STRAY_MARKUP)
        self._scanner.enter(self._stray)

    def _not_an_opener(self) -> None:
        self._repair(RepairKind.STRAY_MARKUP)
        self._resume()

    def _opened(self) -> None:
        if self._collected() not in BLOCK_TAGS:
            self._repair(RepairKind.MISSPELT_OPENER)
        self.open_block()

    def _open_by_call(self) -> None:
        self._repair(RepairKind.MISSING_OPENER)
        self._has_call = False
        self._call.begin()

    def begin_call(self) -> None:
        """A call's name is complete."""
        if not self._is_wanted:
            self._repair(RepairKind.UNWANTED_CALL)
        elif self.answer.is_thinking and not self._has_call:
            self._repair(RepairKind.CALL_IN_REASONING)
        self._has_call = True

    def enter(self) -> None:
        """Look for a call or for the end of the block."""
        self._scanner.enter(self._block)

    def to_closer(self, closed: Callable[[str], None]) -> None:
        """Read a closing tag; `closed` is told what it closes."""
        self._text.clear()
        self._closed_by = closed
        self._scanner.enter(self._closer)

    def _closed(self) -> None:
        self._closed_by(self._collected())

    def _not_a_closer(self) -> None:
        self._closed_by("")

    def _close_block(self, tag: str) -> None:
        if tag.strip() in ("invoke", "parameter", ""):
            self._repair(RepairKind.STRAY_MARKUP)
            self.enter()
            return
        if tag not in BLOCK_TAGS:
            self._repair(RepairKind.MISSPELT_CLOSER)
        if not self._has_call:
            self._repair(RepairKind.EMPTY_BLOCK)
        self.end()

    def end(self) -> None:
        """The block is over: nothing follows it, unless it held no call."""
        if self._has_call and self._is_wanted:
            self._log.call_since = None
            self._scanner.enter(self._done)
        else:
            self._resume()


def _is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def _is_any(text: str) -> bool:
    """What follows a closing tag within a block is never shown."""
    return True
