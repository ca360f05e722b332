"""A call of a block and its parameters to call events, repaired: the inner half of dsml_salvage.py.

Promises: what is promised there of finished calls. String values stream live; JSON values wait for their end, for an
invalid one becomes a string.

A call without any parameter tag, but with text where these belong: a JSON object is the arguments. Any other text is
kept as `{"arguments": text}`, which is how the recipe writes arguments that it cannot split into parameters: an agent
refuses it by its schema and the model sees what it wrote, while `{}` may be a valid call that nobody meant.
"""

import re
from collections.abc import Callable
from typing import Protocol

from whitedwarf.conversation.events import RepairKind
from whitedwarf.prompt.event_log import EventLog
from whitedwarf.prompt.json_text import escaped, is_json, is_json_object, quoted
from whitedwarf.prompt.marker_matcher import Pattern
from whitedwarf.prompt.markup import CLOSE_TAG, OPEN_TAG
from whitedwarf.prompt.output_segment import Segment
from whitedwarf.prompt.parse_state import Action, Rule, state
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.text_scanner import TextScanner

BLOCK_TAGS = ("tool_calls", " calls")
INVOKE = Pattern("invoke name=")
_QUOTED_NAME = re.compile(r'\s*"([^"]*)"')
_NEXT_TAG = re.compile(rf"<?({SpecialToken.DSML.value})? ?\Z")  # the beginning of a tag, at the end of a text
_KIND = re.compile(r"""string=["']?(true|false)\Z""")


class CallBlock(Protocol):
    """The block around the call."""

    def begin_call(self) -> None:
        """A call's name is complete."""

    def enter(self) -> None:
        """The call is over, another may come."""

    def end(self) -> None:
        """The call is over, and the block with it."""

    def to_closer(self, closed: Callable[[str], None]) -> None:
        """A closing tag has begun; `closed` is told what it closes."""


class SalvageCall:
    """The states from a call's name to its end, for one call after the other; events go to `calls`."""

    def __init__(self, scanner: TextScanner, log: EventLog, calls: EventLog, block: CallBlock) -> None:
        self._scanner = scanner
        self._log = log
        self._calls = calls
        self._block = block
        self._text: list[str] = []
        self._has_parameters = False
        self._unread = ""  # text of the open call outside its parameters
        self._is_between = False  # in an open call, but in none of its parameters
        self._may_begin_object = False  # a `{` may: none has come, nor a parameter
        self._is_json_value = False  # the open value
        self._name = state([Rule(Pattern(">"), self._start_call)], self._collect)
        self._make_body()
        self._make_values()

    def _make_body(self) -> None:
        close_call = Rule(Pattern(CLOSE_TAG), self._to_call_closer)
        body = [Rule(Pattern("parameter name="), self._to_key), Rule(INVOKE, self._start_next_call), close_call]
        self._body = state([*body, Rule(Pattern("{"), self._to_object)], self._collect, flushes=True)
        self._object = state(
            [close_call, *self._next_tags(self._start_next_call, self._to_key)], self._collect, flushes=True
        )

    def _make_values(self) -> None:
        key_ends = [Rule(Pattern(text), self._to_value) for text in ('">', "'>")]
        self._key = state([*key_ends, Rule(Pattern(CLOSE_TAG), self._drop_parameter)], self._collect)
        value_ends = [
            Rule(Pattern(CLOSE_TAG), self._end_value),
            *self._next_tags(self._start_call_in_value, self._start_key_in_value),
        ]
        self._string = state(value_ends, self._escaped, flushes=True)
        self._json = state(value_ends, self._collect)

    def finish(self, *, is_complete: bool) -> None:
        """The output ended: a call is closed only if the model meant to end and began nothing after its last tag."""
        if not self._calls.has_open_call:
            return
        text = self._collected()
        self._unread += text
        if is_complete and self._is_between and (not text.strip() or self._has_object()):
            self._repair(RepairKind.UNCLOSED_CALL)
            self._end_call()
        else:
            self._repair(RepairKind.TRUNCATED_CALL)

    def _repair(self, kind: RepairKind) -> None:
        self._log.repair(kind)

    def _collect(self, text: str, segment: Segment, offset: int) -> None:
        self._text.append(text)

    def _collected(self) -> str:
        text = "".join(self._text)
        self._text.clear()
        return text

    def begin(self) -> None:
        """Its name is next."""
        self._text.clear()
        self._is_between = False
        self._scanner.enter(self._name)

    def _start_call(self) -> None:
        text = self._collected()
        found = _QUOTED_NAME.match(text)
        self._block.begin_call()
        if found is None:
            self._repair(RepairKind.BAD_ATTRIBUTE)
        self._has_parameters = False
        self._unread = ""
        self._calls.start_call(found.group(1) if found else text.strip(" \"'"))
        self._to_body()

    def _to_body(self) -> None:
        self._text.clear()
        self._is_between = True
        self._may_begin_object = not self._has_parameters
        self._scanner.enter(self._body)

    def _to_object(self) -> None:
        """A `{` where the parameters belong: in an object, only whole tags count."""
        may_begin = self._may_begin_object and not "".join(self._text).strip()
        self._may_begin_object = False  # what came before is not looked at again for each of many
        self._text.append("{")
        if may_begin:
            self._scanner.enter(self._object)

    def _to_call_closer(self) -> None:
        self._unread += self._collected()
        self._block.to_closer(self._close_call)

    def _start_next_call(self) -> None:
        self._repair(RepairKind.UNCLOSED_CALL)
        self._unread += _NEXT_TAG.sub("", self._collected())
        self._end_call()
        self.begin()

    def _close_call(self, tag: str) -> None:
        word = tag.strip()
        if word == "parameter":
            self._repair(RepairKind.STRAY_MARKUP)
            self._to_body()
        elif tag in BLOCK_TAGS:
            self._repair(RepairKind.UNCLOSED_CALL)
            self._end_call()
            self._block.end()
        else:
            if word != "invoke":
                self._repair(RepairKind.MISSPELT_CLOSER)
            self._end_call()
            self._block.enter()

    def _end_call(self) -> None:
        self._calls.arguments("}" if self._has_parameters else self._arguments_without_parameters())
        self._calls.finish_call()

    def _has_object(self) -> bool:
        return not self._has_parameters and is_json_object(self._unread)

    def _arguments_without_parameters(self) -> str:
        text = self._unread.strip()
        if not text:
            return "{}"
        self._repair(RepairKind.BODY_WITHOUT_PARAMETERS)
        return text if self._has_object() else f'{{"arguments": {quoted(text)}}}'

    # a parameter

    def _to_key(self) -> None:
        self._text.clear()
        self._is_between = False
        self._scanner.enter(self._key)

    def _drop_parameter(self) -> None:
        self._repair(RepairKind.BAD_ATTRIBUTE)
        self._text.clear()
        self._to_parameter_closer()

    def _to_value(self) -> None:
        text = self._collected()
        name, self._is_json_value, is_well_formed = _attributes(text)
        if not is_well_formed:
            self._repair(RepairKind.BAD_ATTRIBUTE)
        self._calls.arguments((", " if self._has_parameters else "{") + quoted(name) + ": ")
        self._has_parameters = True
        if self._is_json_value:
            self._scanner.enter(self._json)
        else:
            self._calls.arguments('"')
            self._scanner.enter(self._string)

    def _escaped(self, text: str, segment: Segment, offset: int) -> None:
        self._calls.arguments(escaped(text))

    def _next_tags(self, to_call: Action, to_key: Action) -> list[Rule]:
        """The beginning of the next tag within a value: the value was not closed."""
        return [
            Rule(Pattern(f"{OPEN_TAG}{blank}{tag} name=", eats_newlines=True), action)
            for blank in ("", " ")
            for tag, action in (("invoke", to_call), ("parameter", to_key))
        ]

    def _start_call_in_value(self) -> None:
        self._finish_value()
        self._start_next_call()

    def _start_key_in_value(self) -> None:
        self._repair(RepairKind.MISSPELT_CLOSER)
        self._finish_value()
        self._to_key()

    def _end_value(self) -> None:
        self._finish_value()
        self._to_parameter_closer()

    def _finish_value(self) -> None:
        text = self._collected()
        if not self._is_json_value:
            self._calls.arguments('"')
        elif is_json(text):
            self._calls.arguments(text)
        else:
            self._repair(RepairKind.INVALID_JSON)
            self._calls.arguments(quoted(text))

    def _to_parameter_closer(self) -> None:
        self._is_between = True
        self._block.to_closer(self._close_parameter)

    def _close_parameter(self, tag: str) -> None:
        if tag.strip() == "invoke" or tag in BLOCK_TAGS:
            self._repair(RepairKind.MISSPELT_CLOSER)
            self._close_call(tag)
            return
        if tag.strip() != "parameter":
            self._repair(RepairKind.MISSPELT_CLOSER)
        self._to_body()


def _attributes(text: str) -> tuple[str, bool, bool]:
    """A parameter's name, whether its value is JSON, and whether it was all written as it should be."""
    kind = _KIND.search(text)
    before = text[: kind.start()] if kind else ""
    if kind is None or not before[-1:].isspace():
        return _name_in(text), False, False
    name = before.strip()
    if len(name) > 1 and name[0] == name[-1] == '"':
        return name[1:-1], kind[1] == "false", True
    return before[:-1].lstrip(), kind[1] == "false", False


def _name_in(text: str) -> str:
    """The name in an attribute text that is not as it should be."""
    found = _QUOTED_NAME.match(text)
    return found.group(1) if found else text.strip(" \"'")
