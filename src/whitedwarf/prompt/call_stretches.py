"""The stretches of a block of calls: the same ways through it as in dsml_salvage.py and salvage_call.py.

Promises: where the parser takes a block of control tokens for complete, `left` is told so. Blocks in ordinary text
(`Tags.is_text`) are none for the parser; what is no tag between their tags ends them. Does not know how a block opens.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whitedwarf.prompt.salvage_call import BLOCK_TAGS
from whitedwarf.prompt.stretch import Action, Limit, Marker, Position, Stretch, StretchReader, stretch

INVOKE = "invoke name="
TAG_LIMIT = 32  # characters of a tag after its beginning
_ANYTHING = re.compile(r".*", re.DOTALL)
_PARAMETER = "parameter name="
_BLOCK_WORDS = ("tool_calls", "calls")
_KIND_SIZE = 24  # characters that say whether a value is JSON
_IS_JSON = re.compile(r"""\sstring=["']?false\Z""")
_TEXT_TAG_LIMIT = 128
_BETWEEN_TAGS = re.compile(r"\s*(<[^<>]*)?")
_IN_TAG = re.compile(r"[^<>\n]*")


@dataclass(frozen=True, slots=True)
class Tags:
    """How tags begin; `is_text`: no control token is part of them."""

    prefix: str
    is_text: bool

    @property
    def blanks(self) -> tuple[str, ...]:
        """What may stand before a tag's word: V4.1 puts a space there, plain tags never do ("a < b")."""
        return ("", " ") if self.prefix else ("",)

    def closing(self, words: Sequence[str], closed: Action, begun: Action) -> list[Marker]:
        """What ends a part: of text a whole closing tag, of a control token its beginning: the parser needs no more."""
        if self.is_text:
            return [(f"</{self.prefix}{blank}{word}>", closed) for blank in self.blanks for word in words]
        return [(f"</{self.prefix}", begun)]


class CallStretches:
    """One block after the other, from `open` or `begin_call` to `left`, which is told whether it held a call.

    `ways_out`: markers that count wherever a block of text has come to.
    """

    def __init__(
        self, reader: StretchReader, tags: Tags, left: Callable[[bool], None], ways_out: Sequence[Marker] = ()
    ) -> None:
        self._reader = reader
        self._tags = tags
        self._left = left
        self._ways_out = ways_out
        self._has_call = False
        self._has_parameters = False
        self._closed: Callable[[str], None] = self._close_block
        self._make_tags()
        self._make_values()

    def open(self) -> None:
        """The block was opened."""
        self._has_call = False
        self._to_block()

    def begin_call(self) -> None:
        """A call began; its name is next."""
        self._reader.enter(self._name)

    def open_by_call(self) -> None:
        """A call began where no block was opened."""
        self._has_call = False
        self.begin_call()

    def _make_tags(self) -> None:
        begins, closing = (INVOKE, self.begin_call), self._tags.closing
        block_ends = closing(_BLOCK_WORDS, self._leave, self._to_block_closer)
        self._block = self._structure([begins, *block_ends], _BETWEEN_TAGS)
        self._name = self._structure([(">", self._start_call)], _IN_TAG)
        call_ends = closing(("invoke",), self._to_block, self._to_call_closer)
        body = [(_PARAMETER, self._to_key), begins, *call_ends, ("{", self._to_object)]
        self._body = self._structure(body, _BETWEEN_TAGS)
        keys = [('">', self._to_value), ("'>", self._to_value)]
        dropped = closing(("parameter",), self._to_body, self._to_parameter_closer)
        self._key = self._structure([*keys, *dropped], _IN_TAG, keeps=True)
        ends = Limit(TAG_LIMIT, _ANYTHING, self._not_closed)
        self._closer = stretch(Position.STRUCTURE, [(">", self._closes)], limit=ends)

    def _structure(self, markers: Sequence[Marker], allowed: re.Pattern[str], *, keeps: bool = False) -> Stretch:
        limit = Limit(_TEXT_TAG_LIMIT, allowed, self._leave) if self._tags.is_text else None
        return stretch(Position.STRUCTURE, [*markers, *self._ways_out], limit=limit, keeps=keeps)

    def _make_values(self) -> None:
        ends = self._tags.closing(("parameter",), self._to_body, self._to_parameter_closer)
        self._string = stretch(Position.STRING_VALUE, [*ends, *self._next_tags()], skips=True)
        self._json = stretch(Position.JSON_STRUCTURE, [*ends, *self._next_tags()])
        call_ends = self._tags.closing(("invoke",), self._to_block, self._to_call_closer)
        self._object = stretch(Position.JSON_STRUCTURE, [*call_ends, *self._next_tags()])

    def _next_tags(self) -> list[Marker]:
        """What begins where a closing tag was forgotten."""
        tags = [(INVOKE, self.begin_call), (_PARAMETER, self._to_key)]
        opening, blanks = f"<{self._tags.prefix}", self._tags.blanks
        return [*[(opening + blank + tag, begins) for blank in blanks for tag, begins in tags], *self._ways_out]

    def _leave(self) -> None:
        self._left(False)

    def _to_block(self) -> None:
        self._reader.enter(self._block)

    def _start_call(self) -> None:
        self._has_call = True
        self._has_parameters = False
        self._to_body()

    def _to_body(self) -> None:
        self._reader.enter(self._body)

    def _to_object(self) -> None:
        """Where the parameters belong an object may stand for all of them."""
        if self._reader.is_blank and not self._has_parameters:
            self._reader.enter(self._object)

    def _to_key(self) -> None:
        self._reader.enter(self._key)

    def _to_value(self) -> None:
        self._has_parameters = True
        is_json = _IS_JSON.search(self._reader.before[-_KIND_SIZE:])
        self._reader.enter(self._json if is_json else self._string)

    # closing tags: `_closed` is told the word in it

    def _to_block_closer(self) -> None:
        self._to_closer(self._close_block)

    def _to_call_closer(self) -> None:
        self._to_closer(self._close_call)

    def _to_parameter_closer(self) -> None:
        self._to_closer(self._close_parameter)

    def _to_closer(self, closed: Callable[[str], None]) -> None:
        self._closed = closed
        self._reader.enter(self._closer)

    def _closes(self) -> None:
        self._closed(self._reader.before)

    def _not_closed(self) -> None:
        self._closed("")

    def _close_block(self, tag: str) -> None:
        if tag.strip() in ("invoke", "parameter", ""):
            self._to_block()
        else:
            self._left(self._has_call)

    def _close_call(self, tag: str) -> None:
        if tag.strip() == "parameter":
            self._to_body()
        elif tag in BLOCK_TAGS:
            self._left(self._has_call)
        else:
            self._to_block()

    def _close_parameter(self, tag: str) -> None:
        if tag.strip() == "invoke" or tag in BLOCK_TAGS:
            self._close_call(tag)
        else:
            self._to_body()
