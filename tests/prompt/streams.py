"""Feeding whole answers to the output parser in pieces, and what they add up to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from whitedwarf.conversation.events import (
    ArgumentsDelta,
    BackendReason,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Repair,
    RepairKind,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions
from whitedwarf.prompt.tokenizer import Tokenizer

D = "｜DSML｜"


@dataclass(frozen=True)
class Answer:
    """Everything an answer adds up to; `fragments` are the joined argument deltas of each started call."""

    reasoning: str
    text: str
    names: tuple[str, ...]
    fragments: tuple[str, ...]
    finished: tuple[tuple[str, str], ...]
    reason: FinishReason
    stop_string: str | None
    repairs: tuple[RepairKind, ...]


def parse_text(pieces: Iterable[str], options: ParseOptions, reason: BackendReason = BackendReason.STOP) -> Answer:
    parser = OutputParser(options)
    events: list[Event] = []
    for piece in pieces:
        if parser.is_finished:
            break
        events += parser.feed_text(piece)
    return add_up(events + parser.finish(reason))


def parse_ids(groups: Iterable[Sequence[int]], options: ParseOptions, tokenizer: Tokenizer) -> Answer:
    parser = OutputParser(options, tokenizer)
    events: list[Event] = []
    for group in groups:
        if parser.is_finished:
            break
        events += parser.feed_ids(group)
    return add_up(events + parser.finish(BackendReason.STOP))


def add_up(events: list[Event]) -> Answer:
    names = [event.name for event in events if isinstance(event, ToolCallStarted)]
    fragments = [""] * len(names)
    for event in events:
        if isinstance(event, ArgumentsDelta):
            fragments[event.index] += event.json_fragment
    last = events[-1]
    assert isinstance(last, Finished)
    return Answer(
        "".join(event.text for event in events if isinstance(event, ReasoningDelta)),
        "".join(event.text for event in events if isinstance(event, TextDelta)),
        tuple(names),
        tuple(fragments),
        tuple((event.name, event.arguments) for event in events if isinstance(event, ToolCallFinished)),
        last.reason,
        last.stop_string,
        tuple(event.kind for event in events if isinstance(event, Repair)),
    )


def cut(text: str, sizes: Sequence[int]) -> list[str]:
    pieces = []
    for size in sizes:
        pieces.append(text[:size])
        text = text[size:]
    return [*pieces, text]


def call(name: str, *parameters: str) -> str:
    return f'<{D}invoke name="{name}">\n{"".join(parameters)}</{D}invoke>\n'


def parameter(name: str, value: str, *, is_string: bool = True) -> str:
    return f'<{D}parameter name="{name}" string="{str(is_string).lower()}">{value}</{D}parameter>\n'


def block(*calls: str, opener: str = "tool_calls") -> str:
    return f"<{D}{opener}>\n{''.join(calls)}</{D}tool_calls>"
