"""Steers an answer that may call tools: markup is drawn greedily, values as the request wants, and a call ends it.

Promises: of `Guide`. Tags and the structure of JSON leave nothing to choose, so sampling could only break them; behind
a complete block of calls the official encoding knows nothing but the end of the turn. Spec: product.md B.8, B.13.
"""

from typing import Any

from whitedwarf.engine.guide import FREE, Course, Mask
from whitedwarf.prompt.call_position import CallPosition
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions
from whitedwarf.prompt.stretch import Position
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.converted import Converted

_MARKUP = Course(is_greedy=True, is_inside_call=True)
_VALUE = Course(is_inside_call=True)
_COURSES = {
    Position.THINKING: FREE,
    Position.OUTSIDE: FREE,
    Position.STRUCTURE: _MARKUP,
    Position.STRING_VALUE: _VALUE,
    Position.JSON_STRUCTURE: _MARKUP,
    Position.JSON_STRING: _VALUE,
    Position.COMPLETE: Course(is_over=True),
}


class CallGuide:
    """The `Guide` of one answer, read with these options."""

    def __init__(self, tokenizer: Tokenizer, options: ParseOptions) -> None:
        self._position = CallPosition(tokenizer, options)

    @property
    def course(self) -> Course:
        """How the answer goes on now, also before its first token."""
        return _COURSES[self._position.position]

    @property
    def position(self) -> Position:
        """Where the next token stands."""
        return self._position.position

    def mask(self) -> Mask | None:
        """A call may be anything."""
        return None

    def accept(self, token: int) -> Course:
        """This token was drawn."""
        return _COURSES[self._position.accept(token)]


def call_guide(converted: Converted[Any], tokenizer: Tokenizer) -> CallGuide | None:
    """What steers the answer to this request; None where no call can come of it, or where it is read to the letter."""
    options = converted.parsing
    is_read = options.parse_tool_calls and options.mode is ParseMode.SALVAGE
    return CallGuide(tokenizer, options) if is_read and converted.conversation.offers_tools else None
