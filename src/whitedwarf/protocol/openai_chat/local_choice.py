"""`tool_choice` as clients write it, also in its older form, `function_call`."""

from dataclasses import dataclass
from typing import Any

from whitedwarf.conversation.tools import ToolChoice
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.local_values import Object, expected
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.openai_chat.tools import ChoiceRequest

_WORDS = {
    "none": ToolChoice.NONE,
    "auto": ToolChoice.AUTO,
    "required": ToolChoice.REQUIRED,
    "any": ToolChoice.REQUIRED,
}
_NAMING = ("function", "custom", "tool")  # kinds of objects that name a tool


@dataclass(frozen=True, slots=True)
class LocalChoice:
    """The choice, if there is one, and the names to which it narrows the tools down."""

    choice: ChoiceRequest | None = None
    allowed: frozenset[str] | None = None


def local_choice(body: Object, notes: Notes) -> LocalChoice:
    """What the body says; MalformedRequest, with what is possible, for anything that is no choice."""
    for member in ("tool_choice", "function_call"):
        value = body.get(member)
        if value is not None:
            return _read(value, member, notes)
    return LocalChoice()


def _read(value: Any, path: str, notes: Notes) -> LocalChoice:
    if isinstance(value, str) and value in _WORDS:
        return LocalChoice(ChoiceRequest(_WORDS[value]))
    if not isinstance(value, dict):
        raise _refused(path, value)
    kind = value.get("type", "function")
    if not isinstance(kind, str):
        raise _refused(f"{path}.type", kind)
    if kind in _WORDS:
        return LocalChoice(ChoiceRequest(_WORDS[kind]))
    if kind == "allowed_tools":
        return _allowed(value, f"{path}.allowed_tools")
    if kind in _NAMING:
        return LocalChoice(ChoiceRequest(ToolChoice.REQUIRED, _name(value, path)))
    notes.warn(f"This server runs no tools itself: a choice of {shortened(kind)} was ignored.")
    return LocalChoice()


def _allowed(value: Object, path: str) -> LocalChoice:
    """Some of the tools, and whether one of them must be called."""
    allowed = value.get("allowed_tools", value)
    entries = allowed.get("tools") if isinstance(allowed, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise expected(path, "an object with a mode and a list of tools", allowed)
    choice = _read(allowed.get("mode", "auto"), f"{path}.mode", Notes()).choice
    return LocalChoice(choice, frozenset(_name(entry, f"{path}.tools[{i}]") for i, entry in enumerate(entries)))


def _name(value: Object, path: str) -> str:
    """The name within an object that names a tool, wrapped or not."""
    for wrapper in ("function", "custom"):
        if isinstance(value.get(wrapper), dict):
            value = value[wrapper]
    name = value.get("name")
    if not isinstance(name, str):
        raise expected(path, "the name of a tool", name)
    return name


def _refused(path: str, value: Any) -> MalformedRequest:
    words = ", ".join(_WORDS)
    return MalformedRequest(f"{path}: expected one of {words} or an object that names a tool; got {shortened(value)}")
