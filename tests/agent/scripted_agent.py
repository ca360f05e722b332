"""An agent whose model is a script: answers written as text, thoughts and calls, compiled to the model's own tokens."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from whitedwarf.agent.approval import NobodyToAsk, Policy, Rule
from whitedwarf.agent.events import Event
from whitedwarf.agent.local_dialogue import LocalDialogue
from whitedwarf.agent.loop import Agent
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.agent.tool import Arguments, Effect, Outcome, Running, Tool, Toolbox, ToolError
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.conversation.tools import ToolCall, ToolDefinition
from whitedwarf.engine.request import FinishReason
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.engine.scripted import ScriptedEngine
from whitedwarf.prompt import dsml
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.json_style import dumps
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

E = TypeVar("E")
PATIENCE_S = 60.0
DIALECTS = {ModelVersion.V4: dsml.V4, ModelVersion.V41: dsml.V41}
Pieces = Sequence[str | SpecialToken | Segment]


def call(name: str, **arguments: Json) -> ToolCall:
    return ToolCall("", name, dumps(arguments, dsml.V4.floats))


def segments_of(pieces: Iterable[str | SpecialToken | Segment]) -> list[Segment]:
    made: list[Segment] = []
    for piece in pieces:
        if isinstance(piece, SpecialToken):
            made.append(Control(piece))
        else:
            made.append(Text(piece) if isinstance(piece, str) else piece)
    return made


def block(*calls: ToolCall, version: ModelVersion = ModelVersion.V4) -> list[Segment]:
    return list(dsml.calls_block(calls, DIALECTS[version]))


def scripted(
    tokenizer: Tokenizer,
    *pieces: str | SpecialToken | Segment,
    ending: FinishReason = FinishReason.STOP,
    delay_s: float = 0.0,
    prefill_s: float = 0.0,
) -> ScriptedAnswer:
    """An answer of these pieces, each token of which comes `delay_s` after the one before."""
    ids = tokenizer.encode_segments(segments_of(pieces))
    stop_id = tokenizer.special_id(SpecialToken.EOS) if ending is FinishReason.STOP else None
    return ScriptedAnswer(tuple((token,) for token in ids), ending, stop_id, prefill_s, delay_s)


def engine_of(tokenizer: Tokenizer, *answers: ScriptedAnswer, context_length: int = 16_384) -> ScriptedEngine:
    return ScriptedEngine(answers, context_length=context_length, vocab_size=tokenizer.vocab_size)


@dataclass
class NoChecks:
    """Lets everything pass, and remembers what it was asked."""

    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    refused: Mapping[str, str] = field(default_factory=dict)  # by parameter
    skips: Callable[[str], bool] = lambda begun: False

    def closed(self, tool: str, parameter: str, arguments: Mapping[str, str]) -> None:
        self.asked.append((tool, parameter, dict(arguments)))
        if parameter in self.refused:
            raise ToolError(self.refused[parameter])

    def may_skip(self, tool: str, parameter: str, begun: str, arguments: Mapping[str, str]) -> bool:
        return self.skips(begun)


@dataclass
class Ear:
    """Listens, and lets a test wait for an event."""

    events: list[Event] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    threads: set[str] = field(default_factory=set)
    on: Callable[[Event], None] = lambda event: None

    def __call__(self, event: Event) -> None:
        with self.changed:
            self.events.append(event)
            self.threads.add(threading.current_thread().name)
            self.changed.notify_all()
        self.on(event)

    def of(self, kind: type[E]) -> list[E]:
        with self.changed:
            return [event for event in self.events if isinstance(event, kind)]

    def wait_for(self, kind: type[Any], count: int = 1) -> None:
        with self.changed:
            came = self.changed.wait_for(
                lambda: sum(isinstance(event, kind) for event in self.events) >= count, PATIENCE_S
            )
        assert came, f"{kind.__name__} did not come"


class Echo(Tool):
    """Says what it was told; `act` may do more."""

    def __init__(
        self,
        name: str = "echo",
        act: Callable[[Arguments, Running], Outcome] | None = None,
        effect: Effect = Effect.READ,
        refuses: str = "",
    ) -> None:
        self.definition = ToolDefinition(name, "Says it again.", {"type": "object"})
        self.effect = effect
        self.ran: list[Mapping[str, Json]] = []
        self._act = act
        self._refuses = refuses
        self.closed = False

    def summary(self, arguments: Arguments) -> str:
        return f"Echo {arguments.values}"

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        self.ran.append(arguments.values)
        if self._act is not None:
            return self._act(arguments, running)
        return Outcome(f"heard {arguments.text('text', 'nothing')}")

    def preflight(self, closed: str, arguments: Mapping[str, str]) -> None:
        if self._refuses and self._refuses in arguments[closed]:
            raise ToolError(f"{closed} holds {self._refuses}")

    def close(self) -> None:
        self.closed = True


def allowing() -> Policy:
    return Policy(NobodyToAsk(), dict.fromkeys(Effect, Rule.AUTO))


QUICK = AgentSettings(thinking=Thinking.NONE, system="You help.")


@dataclass
class Stage:
    """An agent over a script, and what it told."""

    engine: ScriptedEngine
    dialogue: LocalDialogue
    agent: Agent
    ear: Ear

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *error: object) -> None:
        self.agent.close()
        self.engine.close()

    def says(self, *texts: str) -> None:
        for text in texts:
            self.agent.submit(text)
            assert self.agent.wait_idle(PATIENCE_S)

    def prompt(self, tokenizer: Tokenizer, number: int = -1) -> str:
        """What the model was given for an answer, as text."""
        return tokenizer.decode(self.engine.received[number].ids)


def stage(
    tokenizer: Tokenizer,
    *answers: ScriptedAnswer,
    tools: Sequence[Tool] = (),
    settings: AgentSettings = QUICK,
    version: ModelVersion = ModelVersion.V4,
    context_length: int = 16_384,
    policy: Policy | None = None,
) -> Stage:
    engine = engine_of(tokenizer, *answers, context_length=context_length)
    dialogue = LocalDialogue(engine, tokenizer, version, settings)
    ear = Ear()
    agent = Agent(dialogue, Toolbox.of(*tools), policy or allowing(), ear, settings)
    return Stage(engine, dialogue, agent, ear)
