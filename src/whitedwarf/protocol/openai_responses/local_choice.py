"""`tool_choice` as clients write it."""

from collections.abc import Iterator

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.local_values import Object, needed_text, object_of, objects_of, text_at
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.openai_responses.request import AllowedTools, Choice, NamedChoice

_WORDS = {"none": "none", "auto": "auto", "required": "required", "any": "required"}
_NAMING = ("function", "custom", "tool")  # kinds of objects that name a tool


def local_choice(value: Json, notes: Notes) -> Choice | None:
    """The choice, if there is one; MalformedRequest, with what is possible, for anything that is none."""
    if value is None:
        return None
    if isinstance(value, str):
        return _word(value, "tool_choice")
    if not isinstance(value, dict):
        raise _refused("tool_choice", value)
    return _from_object(value, notes)


def _word(value: Json, path: str) -> str:
    if not isinstance(value, str) or value not in _WORDS:
        raise _refused(path, value)
    return _WORDS[value]


def _from_object(value: Object, notes: Notes) -> Choice | None:
    kind = value.get("type", "function")
    if not isinstance(kind, str):
        raise _refused("tool_choice.type", kind)
    if kind in _WORDS:
        return _WORDS[kind]
    if kind in _NAMING:
        return _named(value, "tool_choice")
    if kind == "allowed_tools":
        return _allowed(value, notes)
    notes.warn(f"This server runs no tools itself: a choice of {shortened(kind)} was ignored.")
    return None


def _named(value: Object, path: str) -> NamedChoice:
    """A tool, its name in the object itself or nested as Chat has it."""
    kind = "custom" if value.get("type") == "custom" else "function"
    holder = object_of(value[kind], f"{path}.{kind}") if kind in value else value
    return NamedChoice(kind, needed_text(holder, "name", path), text_at(holder, "namespace", path))


def _allowed(value: Object, notes: Notes) -> AllowedTools:
    holder = value.get("allowed_tools", value)
    allowed = object_of(holder, "tool_choice.allowed_tools")
    mode = _word(allowed.get("mode", "auto"), "tool_choice.mode")
    return AllowedTools(mode, tuple(_allowed_tools(allowed, notes)))


def _allowed_tools(allowed: Object, notes: Notes) -> Iterator[NamedChoice]:
    for path, entry in objects_of(allowed.get("tools"), "tool_choice.tools"):
        if entry.get("type", "function") in _NAMING:
            yield _named(entry, path)
        else:
            kind = shortened(entry.get("type"))
            notes.warn(f"This server runs no tools itself: {kind} among the allowed tools was ignored.")


def _refused(path: str, value: Json) -> MalformedRequest:
    words = ", ".join(_WORDS)
    return MalformedRequest(f"{path}: expected one of {words} or an object that names a tool; got {shortened(value)}")
