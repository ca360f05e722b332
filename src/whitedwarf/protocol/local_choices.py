"""What a choice of tools may say in OpenAI's dialects, and what is said of tools that this server does not run."""

from collections.abc import Mapping

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolChoice
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.notes import shortened

CHOICE_WORDS: Mapping[str, ToolChoice] = {
    "none": ToolChoice.NONE,
    "auto": ToolChoice.AUTO,
    "required": ToolChoice.REQUIRED,
    "any": ToolChoice.REQUIRED,
}
NAMING_KINDS = ("function", "custom", "tool")
"""Kinds of objects that name a tool."""


def no_choice(path: str, value: Json) -> MalformedRequest:
    """The error for what is no choice."""
    words = ", ".join(CHOICE_WORDS)
    return MalformedRequest(f"{path}: expected one of {words} or an object that names a tool; got {shortened(value)}")


def ignored_choice(kind: Json) -> str:
    """The warning for the choice of a tool that this server does not run."""
    return f"This server runs no tools itself: a choice of {shortened(kind)} was ignored."


def left_out_tools(kind: Json) -> str:
    """The warning for tools that this server does not run."""
    return f"This server runs no tools itself: tools of type {shortened(kind)} were left out."
