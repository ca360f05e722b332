"""The messages of a conversation: plain values, no tokens and no dialect of any protocol."""

from dataclasses import dataclass
from typing import TypeAlias

from whitedwarf.conversation.content import Content
from whitedwarf.conversation.tools import ToolCall, ToolDefinition


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """What the operator says. `tools` are definitions that become known here (V4.1 only), None where there are none."""

    content: Content
    tools: tuple[ToolDefinition, ...] | None = None


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the user says."""

    content: Content


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model said. No calls (`None`) and an empty list of calls are different things to V4.

    `is_prefix` marks the beginning of an answer which the model is to continue. `spoken_calls` are its own words for
    its calls: what stands before, between and after their DSML tokens; None where the calls are to be written anew.
    """

    content: str
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    is_prefix: bool = False
    spoken_calls: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """What a tool answered to the call of that id."""

    content: Content
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class LatestReminder:
    """Further instructions at this place, as DeepSeek's own applications give them."""

    content: str


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage | LatestReminder
