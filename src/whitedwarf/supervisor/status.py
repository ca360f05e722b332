"""What the desk tells about its models: values only, in the words of the control API."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class State(StrEnum):
    """Where a model stands. An external server is always loaded."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    LOADED = "loaded"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """One model now. What does not apply is None (0 for counts).

    `idle_s` since the end of the last request, `release_in_s` until it is let go, both only while it is loaded and
    nothing is in flight. `context_size` is the real one where the process told it. `counting` says whether prompts can
    be counted ("off", "not asked yet", "exact", "unavailable: …"). `failure` is why the last start failed.
    """

    key: str
    alias: str
    kind: Literal["managed", "external"]
    state: State
    public_port: int
    internal_port: int | None = None
    pid: int | None = None
    in_flight: int = 0
    waiting: int = 0
    idle_s: float | None = None
    release_in_s: float | None = None
    context_size: int = 0
    soft_limit: int = 0
    counting: str = "off"
    start_count: int = 0
    last_start_s: float | None = None
    failure: str | None = None
    loading_text: str | None = None
    is_pinned: bool = False
    memory_bytes: int = 0
    warnings: tuple[str, ...] = ()


class EventKind(StrEnum):
    """What can happen to a model."""

    LOADING = "loading"
    LOADED = "loaded"
    STOPPING = "stopping"
    UNLOADED = "unloaded"
    CRASHED = "crashed"
    FAILED = "failed"
    RELOADED = "reloaded"


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened. `at_s` is seconds of the desk's monotonic clock; `text` is for people, without any prompt."""

    kind: EventKind
    key: str
    at_s: float
    text: str
