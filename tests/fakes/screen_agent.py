"""An agent for the screen's tests: it plays scenes instead of asking a model, on a thread of its own, as `Agent` does.

A scene is a function of a `Stage`; it tells events, waits, asks. One scene is played per turn, the last one again and
again; without any, an answer repeats the words.
"""

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from whitedwarf.agent.approval import Consent, Question
from whitedwarf.agent.events import AnswerEnd, AnswerEnded, Event, Listener, Notice, QueueChanged, TurnBegan, TurnEnded
from whitedwarf.agent.tui.cockpit import Cockpit, Obeyed, ScreenApprover
from whitedwarf.conversation.events import TextDelta

CONTEXT = 100_000


class InterruptedSceneError(Exception):
    """The user does not want any more of this."""


@dataclass
class Stage:
    """Where a scene is played; all of it on the agent's thread."""

    text: str
    listen: Listener
    approver: ScreenApprover
    stop: threading.Event
    queue: Callable[[str], None]
    used_tokens: int = 0

    def tell(self, *events: Event) -> None:
        """In this order; ends the scene when the user has interrupted it."""
        for event in events:
            if self.stop.is_set():
                raise InterruptedSceneError
            self.listen(event)

    def wait(self, seconds: float) -> None:
        """Unless the user interrupts."""
        if self.stop.wait(seconds):
            raise InterruptedSceneError

    def hold(self) -> None:
        """Until the user interrupts."""
        self.stop.wait()
        raise InterruptedSceneError

    def ask(self, question: Question) -> Consent:
        """The user."""
        return self.approver.ask(question)


Scene = Callable[[Stage], None]


def echo(stage: Stage) -> None:
    """The words again."""
    stage.tell(TextDelta(stage.text), AnswerEnded(AnswerEnd.DONE, 1, stage.used_tokens))


class FakeAgent:
    """`heard` are the texts of the turns that have begun."""

    def __init__(self, listen: Listener, approver: ScreenApprover, scenes: Sequence[Scene] = (echo,)) -> None:
        self.heard: list[str] = []
        self.is_closed = False
        self.interruptions = 0
        self._listen = listen
        self._approver = approver
        self._scenes = list(scenes)
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._is_busy = False
        self._stop = threading.Event()
        self._turns: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="fake agent", daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether a turn is going on."""
        return self._is_busy

    @property
    def queued(self) -> tuple[str, ...]:
        """What waits."""
        with self._lock:
            return tuple(self._waiting)

    def submit(self, text: str) -> None:
        """Say it, or let it wait."""
        with self._lock:
            if self._is_busy:
                self._waiting.append(text)
                self._listen(QueueChanged(tuple(self._waiting)))
            else:
                self._is_busy = True
                self._stop.clear()
                self._turns.put(text)

    def take_queued(self) -> str | None:
        """The oldest that waits."""
        with self._lock:
            if not self._waiting:
                return None
            text = self._waiting.pop(0)
            self._listen(QueueChanged(tuple(self._waiting)))
            return text

    def interrupt(self) -> None:
        """End the scene."""
        self.interruptions += 1
        self._stop.set()

    def close(self) -> None:
        """End the thread."""
        self.is_closed = True
        with self._lock:
            self._waiting.clear()
        self._stop.set()
        self._turns.put(None)
        self._thread.join(60)

    def _run(self) -> None:
        while (text := self._turns.get()) is not None:
            self.heard.append(text)
            self._listen(TurnBegan(text))
            self._play(Stage(text, self._listen, self._approver, self._stop, self.submit))
            self._next()

    def _play(self, stage: Stage) -> None:
        scene = self._scenes.pop(0) if len(self._scenes) > 1 else self._scenes[0]
        end = AnswerEnd.DONE
        try:
            scene(stage)
        except InterruptedSceneError:
            end = AnswerEnd.INTERRUPTED
            self._listen(AnswerEnded(end, 0, stage.used_tokens))
            self._listen(Notice("Interrupted; the model knows what it has said so far."))
        except RuntimeError as error:
            self._listen(Notice(str(error), is_error=True))
        self._listen(TurnEnded(end, stage.used_tokens))

    def _next(self) -> None:
        """What has waited is said now."""
        with self._lock:
            self._stop.clear()
            waiting, self._waiting = self._waiting, []
            if waiting:
                self._listen(QueueChanged(()))
                self._turns.put("\n\n".join(waiting))
            else:
                self._is_busy = False


@dataclass
class FakeCommands:
    """`obeyed` are the lines that came; `confirmations` what /quit and /new were told."""

    approver: ScreenApprover
    obeyed: list[str] = field(default_factory=list)
    confirmations: list[bool] = field(default_factory=list)
    is_unsaved: bool = False
    ids: Sequence[str] = ("ab12cd34", "ab99ffee", "7700aa11")

    @property
    def words(self) -> Mapping[str, str]:
        """Some of the real ones."""
        return {
            "/help": "what the commands are",
            "/list": "saved sessions",
            "/new": "another session",
            "/quit": "leave",
            "/save": "keep the session",
            "/switch": "go to a saved session",
            "/break": "what breaks down",
        }

    def obey(self, line: str) -> Obeyed:
        """Nothing much."""
        self.obeyed.append(line)
        word = line.split()[0]
        if word == "/quit":
            if self.is_unsaved:
                self.confirmations.append(self.approver.confirm("Save current session?"))
            return Obeyed(leaves=True)
        if word == "/break":
            raise ValueError("no such thing")
        if word == "/help":
            return Obeyed("\n".join(f"{name:<10} {text}" for name, text in self.words.items()))
        if word == "/switch" and line.split()[1:] and line.split()[1] not in self.ids:
            return Obeyed(f"there is no session {line.split()[1]}", is_error=True)
        return Obeyed(f"done: {line}")

    def completions(self, line: str) -> Sequence[str]:
        """Words, and the ids after /switch."""
        if line.startswith("/switch "):
            return [f"/switch {name}" for name in self.ids if f"/switch {name}".startswith(line)]
        return [word for word in self.words if word.startswith(line)]


@dataclass
class FakeCockpit:
    """Builds the fake agent for `run_screen` and `AgentApp`; what was built is kept."""

    scenes: Sequence[Scene] = (echo,)
    power: int = 100
    context: int = CONTEXT
    agent: FakeAgent | None = None
    commands: FakeCommands | None = None

    def __call__(self, listen: Listener, approver: ScreenApprover) -> Cockpit:
        """As run_screen's `build`."""
        self.agent = FakeAgent(listen, approver, self.scenes)
        self.commands = FakeCommands(approver)
        return Cockpit(self.agent, self.commands, lambda: self.context, lambda: self.power)
