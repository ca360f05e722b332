"""`tool_choice` as clients write it, also in its older form, `function_call`."""

from dataclasses import dataclass
from typing import Any

from whitedwarf.conversation.tools import ToolChoice
from whitedwarf.protocol.local_choices import CHOICE_WORDS, NAMING_KINDS, ignored_choice, no_choice
from whitedwarf.protocol.local_values import Object, expected
from whitedwarf.protocol.notes import Notes
from whitedwarf.protocol.openai_chat.tools import ChoiceRequest


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
    if isinstance(value, str) and value in CHOICE_WORDS:
        return LocalChoice(ChoiceRequest(CHOICE_WORDS[value]))
    if not isinstance(value, dict):
        raise no_choice(path, value)
    kind = value.get("type", "function")
    if not isinstance(kind, str):
        raise no_choice(f"{path}.type", kind)
    if kind in CHOICE_WORDS:
        return LocalChoice(ChoiceRequest(CHOICE_WORDS[kind]))
    if kind == "allowed_tools":
        return _allowed(value, f"{path}.allowed_tools")
    if kind in NAMING_KINDS:
        return LocalChoice(ChoiceRequest(ToolChoice.REQUIRED, _name(value, path)))
    notes.warn(ignored_choice(kind))
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
