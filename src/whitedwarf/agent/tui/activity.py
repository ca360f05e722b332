"""What the agent is doing and how fast, from its events. Pure: knows no screen and no clock."""

from dataclasses import dataclass, replace
from enum import StrEnum

from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    Compacting,
    Drawn,
    Event,
    ParameterText,
    Reading,
    SessionChanged,
    ToolBegan,
    ToolCallStarted,
    ToolEnded,
    TurnBegan,
    TurnEnded,
)
from whitedwarf.agent.tui.shown import one_line
from whitedwarf.conversation.events import ArgumentsDelta, ReasoningDelta, TextDelta


class Phase(StrEnum):
    """In words that are shown."""

    IDLE = "ready"
    STARTING = "starting"
    READING = "reading"
    THINKING = "thinking"
    ANSWERING = "answering"
    CALLING = "writing a call"
    RUNNING = "running"
    COMPACTING = "COMPACTING"


@dataclass(frozen=True, slots=True)
class Activity:
    """One moment. `used_tokens` is what the context holds, as far as it has been told."""

    phase: Phase = Phase.IDLE
    used_tokens: int = 0
    done: int = 0
    total: int = 0
    reused: int = 0
    tokens: int = 0
    seconds: float = 0.0
    is_greedy: bool = False
    tool: str = ""
    step: str = ""
    waiting: tuple[str, ...] = ()
    session: str = ""
    title: str = ""
    last_end: AnswerEnd | None = None
    _before: int = 0  # what the context held when the answer began

    def after(self, event: Event) -> "Activity":
        """What it is now."""
        match event:
            case TurnBegan():
                return replace(self, phase=Phase.STARTING, tokens=0, seconds=0.0, last_end=None)
            case Reading():
                return self._reading(event)
            case Drawn():
                return self._drawn(event)
            case ReasoningDelta():
                return self._drawing(Phase.THINKING)
            case TextDelta():
                return self._drawing(Phase.ANSWERING)
            case ToolCallStarted():
                return replace(self._drawing(Phase.CALLING), tool=one_line(event.name))
            case ArgumentsDelta() | ParameterText():
                return self._drawing(Phase.CALLING)
            case AnswerEnded():
                return self._ended(event.used_tokens)
            case ToolBegan():
                return replace(self, phase=Phase.RUNNING, tool=one_line(event.name))
            case ToolEnded():
                return replace(self, phase=Phase.STARTING)
            case Compacting():
                return self._compacting(event)
            case SessionChanged():
                begun = self._ended(event.used_tokens)
                return replace(begun, session=event.id, title=one_line(event.title), last_end=None)
            case TurnEnded():
                return replace(self._ended(event.used_tokens), phase=Phase.IDLE, last_end=event.end)
            case _:
                return self

    @property
    def is_drawing(self) -> bool:
        """Whether tokens are drawn."""
        return self.phase in (Phase.THINKING, Phase.ANSWERING, Phase.CALLING)

    def _reading(self, event: Reading) -> "Activity":
        read = event.reused + event.done
        return replace(
            self,
            phase=Phase.READING,
            done=event.done,
            total=event.total,
            reused=event.reused,
            seconds=event.seconds,
            tokens=0,
            used_tokens=read,
            is_greedy=False,
            _before=event.reused + event.total,
        )

    def _compacting(self, event: Compacting) -> "Activity":
        """What is read again is all that is left."""
        used = event.total if event.step == "rebuild" else self.used_tokens
        return replace(
            self,
            phase=Phase.COMPACTING,
            step=event.step,
            done=event.done,
            total=event.total,
            used_tokens=used,
            _before=used,
        )

    def _drawn(self, event: Drawn) -> "Activity":
        return replace(
            self,
            phase=self.phase if self.is_drawing else Phase.ANSWERING,
            tokens=event.tokens,
            seconds=event.seconds,
            is_greedy=event.is_greedy,
            used_tokens=max(self._before + event.tokens, self.used_tokens),
        )

    def _drawing(self, phase: Phase) -> "Activity":
        return self if self.phase is phase else replace(self, phase=phase)

    def _ended(self, used_tokens: int) -> "Activity":
        return replace(self, used_tokens=used_tokens, is_greedy=False, _before=used_tokens)
