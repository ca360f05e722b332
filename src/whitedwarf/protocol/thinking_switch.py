"""The many ways in which clients say "think" and "do not think", in any dialect, read as one (spec/demand.md P09).

Promises: what says outright whether to think is found wherever clients put it; a value that is not understood is
refused with the allowed ones, never passed over. Only the local policy reads requests this way. Does not decide what
a request means that says nothing: see resolution.py.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.notes import shortened
from whitedwarf.protocol.resolution import EFFORTS

Body: TypeAlias = Mapping[str, Json]
SaidT = TypeVar("SaidT")

SWITCHES = frozenset({"thinking", "think", "enable_thinking", "chat_template_kwargs", "reasoning"})
EFFORT_FIELDS = frozenset({"reasoning_effort", "reasoning", "output_config", "think", "chat_template_kwargs"})
THINKING_FIELDS = SWITCHES | EFFORT_FIELDS
"""The members of a body that are read here."""

_SWITCH_WORDS = {"enabled": True, "adaptive": True, "disabled": False}


def explicit_thinking(body: Body) -> bool | None:
    """Whether the request says outright to think or not; None where it leaves that open.

    A switch beats an effort of `none`, as in the official library; of several switches the first in the order of
    `_switches` counts. Raises MalformedRequest for values that are none of the known ones.
    """
    switches = list(_switches(body))
    if switches:
        return switches[0]
    return False if requested_effort(body) == "none" else None


def requested_effort(body: Body) -> str | None:
    """How hard to think, as one of EFFORTS; None where the request does not say. Raises MalformedRequest for others."""
    efforts = list(_efforts(body))
    return efforts[0] if efforts else None


def _switches(body: Body) -> Iterator[bool]:
    """Every switch in the body, each of them checked."""
    template = _object_at(body, "chat_template_kwargs")
    for parent, path in ((body, ""), (template, "chat_template_kwargs.")):
        yield from _read(parent, "thinking", path, _thinking)
        yield from _read(parent, "think", path, _think)
        yield from _read(parent, "enable_thinking", path, _flag)
    yield from _read(_object_at(body, "reasoning"), "enabled", "reasoning.", _flag)


def _efforts(body: Body) -> Iterator[str]:
    yield from _read(body, "reasoning_effort", "", _effort)
    yield from _read(_object_at(body, "reasoning"), "effort", "reasoning.", _effort)
    yield from _read(_object_at(body, "output_config"), "effort", "output_config.", _effort)
    yield from _read(_object_at(body, "chat_template_kwargs"), "reasoning_effort", "chat_template_kwargs.", _effort)
    think = body.get("think")
    if isinstance(think, str):
        yield _effort(think, "think")


def _read(parent: Body, name: str, path: str, read: Callable[[Json, str], SaidT | None]) -> Iterator[SaidT]:
    """What the member says, if it is there and says anything."""
    value = parent.get(name)
    if value is not None and (said := read(value, path + name)) is not None:
        yield said


def _thinking(value: Json, path: str) -> bool:
    """A flag, a word, or an object whose `type` is that word."""
    if isinstance(value, bool):
        return value
    if isinstance(value, dict):
        return _thinking_word(value.get("type"), f"{path}.type")
    return _thinking_word(value, path)


def _thinking_word(word: Json, path: str) -> bool:
    if not isinstance(word, str) or word not in _SWITCH_WORDS:
        raise _refused(path, word, tuple(_SWITCH_WORDS))
    return _SWITCH_WORDS[word]


def _think(value: Json, path: str) -> bool | None:
    """A flag; or the effort, which says for itself whether to think."""
    return None if isinstance(value, str) else _flag(value, path)


def _flag(value: Json, path: str) -> bool:
    if not isinstance(value, bool):
        raise _refused(path, value, ("true", "false"))
    return value


def _effort(value: Json, path: str) -> str:
    if not isinstance(value, str) or value not in EFFORTS:
        raise _refused(path, value, EFFORTS)
    return value


def _object_at(body: Body, name: str) -> Body:
    """An object within the body; empty where it is absent."""
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedRequest(f"{name}: expected an object, got {shortened(value)}")
    return value


def _refused(path: str, value: Json, allowed: tuple[str, ...]) -> MalformedRequest:
    return MalformedRequest(f"{path}: expected one of {', '.join(allowed)}; got {shortened(value)}")
