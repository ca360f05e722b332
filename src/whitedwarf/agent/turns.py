"""What is said in a session, piece by piece, as segments of V4's or V4.1's own encoding (prompt/encode_v4.py and v41).

Promises: a conversation told in these pieces has the ids of the same conversation encoded as a whole, as long as
nothing is said in between (dates, reminders, summaries, for which that encoding has its own places). What users, files
and tools say is text, whatever it spells. Knows what was said last, and nothing else: no ids, no model.
"""

from collections.abc import Sequence
from enum import Enum, auto

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import SystemMessage
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.prompt import dsml, literals
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.toolspec import tool_prompt

Segments = list[Segment]

_INSTRUCTION = {ModelVersion.V4: SpecialToken.LATEST_REMINDER, ModelVersion.V41: SpecialToken.SYSTEM}
_DIALECT = {ModelVersion.V4: dsml.V4, ModelVersion.V41: dsml.V41}


class _Said(Enum):
    """What the user's side said last, if that is the last thing said at all."""

    NOTHING = auto()
    WORDS = auto()
    RESULT = auto()


class Turns:
    """One session's way of saying things; each method gives what follows on what the methods before it gave."""

    def __init__(self, version: ModelVersion) -> None:
        self._version = version
        self._last = _Said.NOTHING

    @property
    def dialect(self) -> dsml.Dialect:
        """How calls are written."""
        return _DIALECT[self._version]

    @property
    def syntax(self) -> str:
        """How a block of calls looks, as text that is no call."""
        mark, written = SpecialToken.DSML.value, self.dialect
        return (
            f". A block of calls stands behind the thinking, and looks like this:\n<{mark}{written.calls}>\n"
            f'<{mark}{written.invoke} name="TOOL">\n'
            f'<{mark}{written.parameter} name="PARAMETER" string="true">VALUE</{mark}{written.parameter}>\n'
            f"</{mark}{written.invoke}>\n</{mark}{written.calls}>"
        )

    def opening(self, system: str, tools: Sequence[ToolDefinition], thinking: Thinking) -> Segments:
        """The beginning of a session."""
        self._last = _Said.NOTHING
        conversation = Conversation(
            messages=(SystemMessage(system),) if system else (),
            is_thinking=thinking.is_on,
            tools=tuple(tools),
            reasoning_effort=thinking.effort,
        )
        return list(encode(conversation, self._version).segments[:-2])  # without the start of an answer

    def instruction(self, text: str) -> Segments:
        """A line of the system's in between."""
        self._last = _Said.NOTHING
        return [Control(_INSTRUCTION[self._version]), Text(text)]

    def reminder(self, text: str, system: str, tools: Sequence[ToolDefinition]) -> Segments:
        """The system's part once more, behind `text`."""
        told = tool_prompt(tools, self.dialect) if tools else []
        return [*self.instruction(text + literals.SEPARATOR + system), *told]

    def user(self, text: str) -> Segments:
        """The user's words."""
        return [*self._user_side(follows_on=self._last is not _Said.NOTHING, said=_Said.WORDS), Text(text)]

    def results(self, texts: Sequence[str]) -> Segments:
        """What tools gave, in the order of their calls."""
        return [segment for text in texts for segment in self._result(text)]

    def answer_start(self, *, is_thinking: bool) -> Segments:
        """Where the model takes over."""
        opener = SpecialToken.THINK_OPEN if is_thinking else SpecialToken.THINK_CLOSE
        return [Control(SpecialToken.ASSISTANT), Control(opener)]

    def answer_end(self, *, is_in_thought: bool) -> Segments:
        """What closes an answer; one that was cut off in a thought has this closed as well."""
        self._last = _Said.NOTHING
        closing: Segments = [Control(SpecialToken.THINK_CLOSE)] if is_in_thought else []
        return [*closing, Control(SpecialToken.EOS)]

    def _result(self, text: str) -> Segments:
        is_between = self._version is ModelVersion.V41 and self._last is _Said.WORDS
        opening = self._user_side(follows_on=self._last is _Said.RESULT or is_between, said=_Said.RESULT)
        return [*opening, Text(literals.RESULT_OPEN), Text(text), Text(literals.RESULT_CLOSE)]

    def _user_side(self, *, follows_on: bool, said: _Said) -> Segments:
        self._last = said
        return [Text(literals.SEPARATOR)] if follows_on else [Control(SpecialToken.USER)]
