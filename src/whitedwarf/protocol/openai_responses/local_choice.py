"""`tool_choice` as clients write it."""

from collections.abc import Iterator

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.local_choices import CHOICE_WORDS, NAMING_KINDS, ignored_choice, no_choice
from whitedwarf.protocol.local_values import Object, needed_text, object_of, objects_of, text_at
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.openai_responses.request import AllowedTools, Choice, NamedChoice


def local_choice(value: Json, notes: Notes) -> Choice | None:
    """The choice, if there is one; MalformedRequest, with what is possible, for anything that is none."""
    if value is None:
        return None
    if isinstance(value, str):
        return _word(value, "tool_choice")
    if not isinstance(value, dict):
        raise no_choice("tool_choice", value)
    return _from_object(value, notes)


def _word(value: Json, path: str) -> str:
    if not isinstance(value, str) or value not in CHOICE_WORDS:
        raise no_choice(path, value)
    return CHOICE_WORDS[value].value


def _from_object(value: Object, notes: Notes) -> Choice | None:
    kind = value.get("type", "function")
    if not isinstance(kind, str):
        raise no_choice("tool_choice.type", kind)
    if kind in CHOICE_WORDS:
        return CHOICE_WORDS[kind].value
    if kind in NAMING_KINDS:
        return _named(value, "tool_choice")
    if kind == "allowed_tools":
        return _allowed(value, notes)
    notes.warn(ignored_choice(kind))
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
        if entry.get("type", "function") in NAMING_KINDS:
            yield _named(entry, path)
        else:
            kind = shortened(entry.get("type"))
            notes.warn(f"This server runs no tools itself: {kind} among the allowed tools was ignored.")
