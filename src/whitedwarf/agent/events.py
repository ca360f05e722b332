"""What the agent tells whoever shows it: plain frozen values, in the order in which things happen.

One turn is `TurnBegan … TurnEnded`. Within it answers and tools take turns: `Reading`* (the prompt), then deltas of
thoughts, text and calls with `Drawn` between them, `AnswerEnded`; then for each call `ToolBegan`, `ToolOutput`*,
`ToolEnded`. `TurnBegan` comes again within a turn when queued words are delivered behind the tools' results. `Notice`,
`QueueChanged` and `Compacting` may come at any time. Whoever listens is called on the agent's thread, has to be quick
and must not raise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from whitedwarf.conversation.events import ArgumentsDelta, ReasoningDelta, Repair, TextDelta, ToolCallFinished
from whitedwarf.conversation.events import ToolCallStarted as ToolCallStarted
from whitedwarf.conversation.json_value import Json


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """The user's words are part of the session now."""

    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The prompt is read: `done` of `total` new tokens, after `reused` that were read before."""

    done: int
    total: int
    reused: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Drawn:
    """After each token: how many this answer has, since when, and whether the next one is drawn greedily."""

    tokens: int
    seconds: float
    is_greedy: bool = False


@dataclass(frozen=True, slots=True)
class ParameterText:
    """More of a parameter's value, while the model writes it; text parameters only. `is_closed`: that was all."""

    index: int
    parameter: str
    text: str
    is_closed: bool = False


class AnswerEnd(StrEnum):
    """How an answer ended."""

    DONE = "done"  # without calls: the turn is over
    CALLS = "calls"  # tools are to be run
    LENGTH = "length"  # no room for more
    INTERRUPTED = "interrupted"
    REFUSED = "refused"  # a call was ended while it was written: preflight says why
    FAULTY = "faulty"  # calls that cannot be read: cut off, malformed, or inside a thought


@dataclass(frozen=True, slots=True)
class AnswerEnded:
    """What the context holds now; `fault`: what the model is told about REFUSED and FAULTY."""

    end: AnswerEnd
    tokens: int
    used_tokens: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ToolBegan:
    """A tool runs. `summary` is one line for people."""

    index: int
    name: str
    summary: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a running tool shows before its result is there."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """`text` is what the model is told; `diff` (unified) what a file's change looks like."""

    index: int
    name: str
    text: str
    is_error: bool
    seconds: float
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Compacting:
    """The context is being shortened: a summary is written (`done` tokens of it), then the rest is read again."""

    step: str  # "summary" or "rebuild"
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """What the user has written meanwhile, oldest first."""

    waiting: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the user that is no output of the model."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """Another session, or another title: `id` is empty while nothing was saved."""

    id: str
    title: str
    used_tokens: int


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The agent is idle again unless more is queued."""

    end: AnswerEnd
    used_tokens: int


Event = (
    TurnBegan
    | Reading
    | Drawn
    | ReasoningDelta
    | TextDelta
    | ToolCallStarted
    | ArgumentsDelta
    | ParameterText
    | ToolCallFinished
    | Repair
    | AnswerEnded
    | ToolBegan
    | ToolOutput
    | ToolEnded
    | Compacting
    | QueueChanged
    | Notice
    | SessionChanged
    | TurnEnded
)
Listener = Callable[[Event], None]
