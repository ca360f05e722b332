"""A scenario: files, a script for the model, the user's words and actions; then what happened, and what has to be true.

`Play` opens a `Scene`; when its `with` ends well, everything that invariants.py promises is checked.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from agent.scenarios.invariants import (
    Lines,
    Surroundings,
    check_every_call_has_a_result,
    check_turns,
)
from agent.scenarios.replies import Reply, compiled
from whitedwarf.agent.approval import NobodyToAsk, Policy, Rule
from whitedwarf.agent.commands import Commands
from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    Event,
    Notice,
    QueueChanged,
    ToolEnded,
    TurnBegan,
    TurnEnded,
)
from whitedwarf.agent.history import History
from whitedwarf.agent.local_dialogue import LocalDialogue
from whitedwarf.agent.loop import Agent
from whitedwarf.agent.sessions import Sessions, SessionSettings
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.agent.store import SessionStore
from whitedwarf.agent.store_opening import open_stateless_store
from whitedwarf.agent.tool import Effect, Tool, Toolbox
from whitedwarf.agent.tools.standard import standard_tools
from whitedwarf.agent.workspace import Workspace
from whitedwarf.conversation.events import ReasoningDelta, TextDelta
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.engine.scripted import ScriptedEngine
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer

E = TypeVar("E")
PATIENCE_S = 60.0
SHORT = AgentSettings(thinking=Thinking.NONE, system="You help.")
THINKING = replace(SHORT, thinking=Thinking.HIGH)
Match = Callable[[Event], bool]
Files = Mapping[str, str | bytes]


def saw(kind: type[Any], **fields: object) -> Match:
    """An event of this kind, whose fields are these; of texts, whose field holds this."""

    def is_one(event: Event) -> bool:
        return isinstance(event, kind) and all(_is_as(getattr(event, name), value) for name, value in fields.items())

    return is_one


def _is_as(value: object, wanted: object) -> bool:
    if isinstance(value, str) and isinstance(wanted, str) and not isinstance(value, AnswerEnd):
        return wanted in value
    return value == wanted


def allowing(**by_tool: Rule) -> Policy:
    """Everything but what is named."""
    return Policy(NobodyToAsk(), dict.fromkeys(Effect, Rule.AUTO), by_tool)


class Trouble(logging.Handler):
    """Keeps what the package logs as an error: in a scenario nothing is, unless it was foreseen."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record.getMessage())


@dataclass
class Scene:
    """An agent in a workspace, driven by a script."""

    engine: ScriptedEngine
    dialogue: LocalDialogue
    tokenizer: Tokenizer
    version: ModelVersion
    root: Path
    folder: Path
    policy: Policy
    toolbox: Toolbox
    settings: AgentSettings
    trouble: Trouble = field(default_factory=Trouble)
    foreseen: list[str] = field(default_factory=list)
    """Log messages of errors that this scenario is about."""
    events: list[Event] = field(default_factory=list)
    begins: set[int] = field(default_factory=set)
    store: SessionStore | None = None
    autosave: bool = True
    questions: list[str] = field(default_factory=list)
    """What the user was asked by commands."""
    says_yes: bool = True

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._reactions: list[tuple[Match, Callable[[], object]]] = []
        self.watch: Callable[[Event], object] = lambda event: None
        """Hears every event, after it was kept."""
        self.saved: Sessions | None = None
        if self.store is not None:
            settings = SessionSettings("script", str(self.root), self.autosave)
            self.saved = Sessions(self.store, self.engine, self.dialogue, self._hear, settings)
        listen = self._hear if self.saved is None else self.saved.hear
        self.agent = Agent(self.dialogue, self.toolbox, self.policy, listen, self.settings)
        if self.saved is not None:
            self.saved.attach(self.agent)
        self.commands = Commands(self.agent, self.saved, History(self.tokenizer), self._ask, columns=lambda: 100)

    # the user

    def user(self, *texts: str) -> None:
        """Says something, and waits for the end of it all; then the next."""
        for text in texts:
            self.agent.submit(text)
            self.wait()

    def wait(self) -> None:
        assert self.agent.wait_idle(PATIENCE_S), f"the agent is still busy; the last events: {self.events[-5:]}"

    def when(self, match: Match, act: Callable[[], object]) -> None:
        """At the first such event, do this (on the agent's thread, as the event is told)."""
        self._reactions.append((match, act))

    def interrupts_when(self, match: Match) -> None:
        self.when(match, lambda: self.agent.interrupt())

    def says_when(self, match: Match, *texts: str) -> None:
        """Writes this meanwhile: it queues."""
        for text in texts:
            self.when(match, lambda text=text: self.agent.submit(text))

    def begins_anew(self) -> None:
        """As /new."""
        self.agent.request(self.agent.new_session)
        self.wait()
        self.begins.add(len(self.engine.received))

    def obeys(self, line: str) -> str:
        """A slash command that works -> what it says."""
        outcome = self.commands.obey(line)
        assert not outcome.is_error, outcome.text
        self.wait()
        if line.split()[0] in ("/new", "/switch"):
            self.begins.add(len(self.engine.received))
        return outcome.text

    def refuses(self, line: str) -> str:
        """A slash command that does not -> why."""
        outcome = self.commands.obey(line)
        assert outcome.is_error, outcome.text
        return outcome.text

    @property
    def session_id(self) -> str:
        assert self.saved is not None
        return self.saved.current_id

    def wait_for(self, match: Match) -> None:
        with self._changed:
            came = self._changed.wait_for(lambda: any(match(event) for event in self.events), PATIENCE_S)
        assert came, f"it did not come; the last events: {self.events[-5:]}"

    # what happened

    def of(self, kind: type[E]) -> list[E]:
        with self._changed:
            return [event for event in self.events if isinstance(event, kind)]

    @property
    def results(self) -> list[str]:
        """What the tools gave."""
        return [event.text for event in self.of(ToolEnded)]

    @property
    def said(self) -> str:
        return "".join(event.text for event in self.of(TextDelta))

    @property
    def thought(self) -> str:
        return "".join(event.text for event in self.of(ReasoningDelta))

    @property
    def answers(self) -> list[AnswerEnd]:
        return [event.end for event in self.of(AnswerEnded)]

    @property
    def turns(self) -> list[AnswerEnd]:
        return [event.end for event in self.of(TurnEnded)]

    @property
    def users_words(self) -> list[str]:
        return [event.text for event in self.of(TurnBegan)]

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.of(Notice)]

    @property
    def queues(self) -> list[tuple[str, ...]]:
        return [event.waiting for event in self.of(QueueChanged)]

    def told(self, request: int = -1) -> str:
        """What the model was given to read for an answer."""
        return self.tokenizer.decode(list(self.engine.received[request].ids))

    @property
    def conversation(self) -> str:
        """All that is in the session behind the system's part."""
        return self.tokenizer.decode(self.dialogue.transcript.ids[self.dialogue.opening_length :].tolist())

    def path(self, name: str) -> Path:
        return self.root / name

    def file(self, name: str) -> str:
        return self.path(name).read_text(encoding="utf-8")

    # its end

    def _hear(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()
        self.watch(event)
        due = [one for one in self._reactions if one[0](event)]
        for one in due:
            self._reactions.remove(one)
            one[1]()

    def _ask(self, text: str) -> bool:
        self.questions.append(text)
        return self.says_yes

    def close(self) -> None:
        self.agent.close()
        if self.saved is not None:
            self.saved.close()
        self.engine.close()

    def check(self) -> None:
        """Everything that is true of every scenario."""
        assert sorted(self.trouble.seen) == sorted(self.foreseen)
        assert not self._reactions, "what the scenario waited for never came"
        check_turns(self.events)
        check_every_call_has_a_result(self.events)
        lines = Lines(self.tokenizer, self.engine.received, frozenset(self.begins))
        transcript = self.dialogue.transcript.ids.tolist()
        lines.check_transcript(transcript)
        lines.check_results_were_told(self.events, transcript)


@dataclass
class Play:
    """Opens scenes of one version of the model, each in folders of its own."""

    tokenizer: Tokenizer
    version: ModelVersion
    folder: Path

    @contextmanager
    def __call__(
        self,
        *script: Reply,
        files: Files | None = None,
        tools: Sequence[Tool] = (),
        settings: AgentSettings = SHORT,
        context_length: int = 16_384,
        policy: Policy | None = None,
        is_strict: bool = False,
        keeps: bool = False,
        autosave: bool = True,
    ) -> Iterator[Scene]:
        root = self.folder / "workspace"
        _write(root, files or {})
        if not (self.folder / "outside").exists():
            _write(self.folder / "outside", {"secret.txt": "nobody's business\n"})
        around = Surroundings(self.folder, but=[root, self.folder / "sessions"])
        engine = ScriptedEngine(
            compiled(script, self.version, self.tokenizer),
            context_length=context_length,
            vocab_size=self.tokenizer.vocab_size,
        )
        dialogue = LocalDialogue(engine, self.tokenizer, self.version, settings)
        box = Toolbox.of(*standard_tools(Workspace(root, is_strict=is_strict)).tools.values(), *tools)
        trouble = Trouble()
        logging.getLogger("whitedwarf").addHandler(trouble)
        sessions = self.folder / "sessions"
        scene = Scene(
            engine,
            dialogue,
            self.tokenizer,
            self.version,
            root,
            self.folder,
            policy or allowing(),
            box,
            settings,
            trouble,
            store=open_stateless_store(self.tokenizer, context_length, sessions) if keeps else None,
            autosave=autosave,
        )
        try:
            scene.wait()
            yield scene
            scene.wait()
            scene.check()
        finally:
            scene.close()
            logging.getLogger("whitedwarf").removeHandler(trouble)
        around.check_left_alone()
        scene.check()


def _write(root: Path, files: Files) -> None:
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
