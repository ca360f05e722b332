"""What a model's answer is made of while it arrives: the events between the output parser and the protocols.

Promises: plain values; deltas joined give the whole. `token_span` is the half-open range of positions, among all ids
fed to the parser, of the piece that a delta came from (empty for text pieces): log probabilities belong to the whole
piece, even where part of its text was cut. Does not know any dialect, ids of calls, or usage of the prompt.
"""

from dataclasses import dataclass
from enum import StrEnum


class BackendReason(StrEnum):
    """Why the engine stopped producing tokens."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


class FinishReason(StrEnum):
    """Why the answer ended, as the protocols have to tell it."""

    STOP = "stop"
    STOP_STRING = "stop_string"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    CONTENT_FILTER = "content_filter"


class RepairKind(StrEnum):
    """What the salvage mode put right."""

    CALL_IN_REASONING = "call_in_reasoning"
    MISSPELT_OPENER = "misspelt_opener"
    MISSING_OPENER = "missing_opener"
    MISSPELT_CLOSER = "misspelt_closer"
    EMPTY_BLOCK = "empty_block"
    STRAY_MARKUP = "stray_markup"
    UNWANTED_CALL = "unwanted_call"
    BAD_ATTRIBUTE = "bad_attribute"
    INVALID_JSON = "invalid_json"
    BODY_WITHOUT_PARAMETERS = "body_without_parameters"
    UNASKED_THOUGHT = "unasked_thought"
    UNCLOSED_CALL = "unclosed_call"
    TRUNCATED_CALL = "truncated_call"
    RUNAWAY_CALL = "runaway_call"


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the thinking."""

    text: str
    token_span: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer."""

    text: str
    token_span: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The call's name is complete; calls are counted from 0."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """More of the JSON text of the open call's arguments."""

    index: int
    json_fragment: str


@dataclass(frozen=True, slots=True)
class ToolCallFinished:
    """The call was closed by the model (or by a repair): `arguments` is all of its JSON text."""

    index: int
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Repair:
    """The model made a mistake that was put right."""

    kind: RepairKind


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event. `stop_string` is set exactly when the reason is STOP_STRING."""

    reason: FinishReason
    stop_string: str | None
    completion_tokens: int
    reasoning_tokens: int


Event = ReasoningDelta | TextDelta | ToolCallStarted | ArgumentsDelta | ToolCallFinished | Repair | Finished
