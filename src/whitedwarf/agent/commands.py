"""The slash commands (product.md C.8), without any screen.

Promises: `obey` always answers, and never raises what is the user's to know. It may wait for the agent, so it is called
on a thread of its own; while the agent is at work, `/help`, `/list` and `/power` are done at once, `/save` and
`/compact` at the next safe point, and all others are refused.
"""

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from whitedwarf.agent.command_help import help_text
from whitedwarf.agent.dialogue import GradedThinking
from whitedwarf.agent.events import Notice
from whitedwarf.agent.history import DEFAULT_TURNS, History
from whitedwarf.agent.local_dialogue import LocalDialogue
from whitedwarf.agent.loop import Agent
from whitedwarf.agent.session_list import list_text
from whitedwarf.agent.sessions import Sessions
from whitedwarf.agent.store import SHORT_ID
from whitedwarf.agent.tui.cockpit import Obeyed
from whitedwarf.conversation.thinking import MAX_THINKING_CONTEXT, Thinking
from whitedwarf.errors import EngineClosedError, UsageError, WhitedwarfError

T = TypeVar("T")
CommandOutcome = Obeyed

WORDS: Mapping[str, str] = {
    "/help": "this list",
    "/new": "leave this session and begin another",
    "/list": "the saved sessions",
    "/switch": "go on with another session; the first digits are enough",
    "/save": "save this session now",
    "/history": "show the last N turns again (3)",
    "/compact": "shorten the context: a summary takes the place of what is long ago",
    "/del": "delete a saved session",
    "/strip": "keep a saved session's words, not its state: it is small then, and read again when gone on with",
    "/think": "think before answering",
    "/think-max": "think as thoroughly as can be",
    "/nothink": "answer at once",
    "/power": "work N percent of the time, to stay cool",
    "/steer": "take FILE's directions out of what comes next; off ends it",
    "/quit": "leave",
    "/exit": "leave",
}
_MODES = {"/think": Thinking.HIGH, "/think-max": Thinking.MAX, "/nothink": Thinking.NONE}
_WHILE_BUSY = ("/help", "/list", "/power", "/save", "/compact")
_MOST_DIGITS = 9
_STEP_S = 0.2


class Confirm(Protocol):
    """Asks the user; called on the thread of `obey`, which waits."""

    def __call__(self, text: str) -> bool: ...


class Powered(Protocol):
    """An engine that can be made to rest."""

    power_percent: int


class Steer(Protocol):
    """`/steer`'s argument -> what is set afterwards; on the agent's thread. UsageError, FileFormatError."""

    def __call__(self, argument: str) -> str: ...


class Commands:
    """Of one agent. Without `sessions` (a model behind a URL) nothing is saved; without `engine` there is no power to
    set, without `steer` no steering."""

    def __init__(
        self,
        agent: Agent,
        sessions: Sessions | None,
        history: History | None,
        confirm: Confirm,
        *,
        engine: Powered | None = None,
        steer: Steer | None = None,
        columns: Callable[[], int] = lambda: shutil.get_terminal_size((100, 24)).columns,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._agent = agent
        self._saved = sessions
        self._history = history
        self._confirm = confirm
        self._engine = engine
        self._steering = steer
        self._columns, self._clock = columns, clock

    @property
    def words(self) -> Mapping[str, str]:
        """Each command with a line of help."""
        return WORDS

    def obey(self, line: str) -> CommandOutcome:
        """Do what a line says."""
        word, _, argument = line.strip().partition(" ")
        if word not in WORDS:
            return CommandOutcome(f"there is no command {word[:40]}; /help lists them", is_error=True, is_known=False)
        if self._agent.is_busy and word not in _WHILE_BUSY:
            problem = f"{word}: the agent is at work; wait for it, or interrupt it first"
            return CommandOutcome(problem, is_error=True)
        try:
            return self._obey(word, argument.strip())
        except WhitedwarfError as error:
            return CommandOutcome(str(error), is_error=True)

    def completions(self, line: str) -> Sequence[str]:
        """Whole lines that a beginning may become: words, then the ids of sessions, last used first."""
        word, blank, prefix = line.partition(" ")
        if not blank:
            return [known for known in WORDS if line and known.startswith(line)]
        if word not in ("/switch", "/del", "/strip") or self._saved is None:
            return []
        current, wanted = self._saved.current_id, prefix.strip().lower()
        entries = (entry for entry in self._saved.listing().entries if entry.id != current)
        return [f"{word} {entry.id[:SHORT_ID]}" for entry in entries if entry.id.startswith(wanted)]

    def _obey(self, word: str, argument: str) -> CommandOutcome:
        match word:
            case "/help":
                return CommandOutcome(help_text(self.words))
            case "/list":
                return CommandOutcome(self._list())
            case "/power":
                return CommandOutcome(self._power(argument))
            case "/save":
                return self._soon(self._sessions().save, "the session will be saved at the next safe point")
            case "/compact":
                return self._soon(self._compact, "the context will be shortened at the next safe point")
            case "/think" | "/think-max" | "/nothink":
                return CommandOutcome(self._on_agent(lambda: self._think(_MODES[word])))
            case "/history":
                turns = _number(word, argument, DEFAULT_TURNS)
                return CommandOutcome(self._on_agent(lambda: self._past(turns)))
            case "/steer":
                return CommandOutcome(self._steer(argument))
            case "/new":
                return self._leaving(self._new)
            case "/switch":
                prefix = _required(word, argument)
                self._sessions().store.find(prefix)  # before anybody is asked anything
                return self._leaving(lambda: self._on_agent(lambda: self._switch(prefix)))
            case "/del" | "/strip":
                return CommandOutcome(self._change(word, _required(word, argument)))
        return self._leaving(lambda: "", leaves=True)

    def _list(self) -> str:
        sessions = self._sessions()
        return list_text(sessions.listing(), sessions.current_id, self._clock(), self._columns())

    def _power(self, argument: str) -> str:
        if self._engine is None:
            raise UsageError("/power: this model does not run here, so its power cannot be set")
        if argument:
            self._engine.power_percent = _number("/power", argument.removesuffix("%").strip(), 100)
        return f"power: {self._engine.power_percent} %"

    def _compact(self) -> str:
        self._agent.compact()
        if self._saved is not None:
            self._saved.keep()
        return ""  # a notice tells

    def _think(self, mode: Thinking) -> str:
        dialogue = self._agent.dialogue
        if not isinstance(dialogue, LocalDialogue):
            if isinstance(dialogue, GradedThinking):
                dialogue.thinking = mode
            dialogue.is_thinking = mode.is_on
            return f"thinking: {mode}"
        dialogue.thinking = mode
        if dialogue.thinking is not mode:
            reason = f"max needs a context of {MAX_THINKING_CONTEXT}, this is {dialogue.context_length}"
            return f"thinking: {dialogue.thinking} ({reason})"
        return f"thinking: {mode}" + (" (how thorough counts from the next session on)" if mode.is_on else "")

    def _past(self, turns: int) -> str:
        dialogue = self._agent.dialogue
        if self._history is None or not isinstance(dialogue, LocalDialogue):
            raise UsageError("/history: what was said to this model is not kept here")
        return self._history.text(dialogue.ids, turns)

    def _steer(self, argument: str) -> str:
        steer = self._steering
        if steer is None:
            raise UsageError("/steer: this model cannot be steered from here")
        return self._on_agent(lambda: f"steering: {steer(argument)}")

    def _new(self) -> str:
        if self._saved is None:
            self._on_agent(self._agent.new_session)
        else:
            self._on_agent(self._saved.begin_new)
        return "a new session"

    def _switch(self, prefix: str) -> str:
        resumed = self._sessions().switch(prefix)
        lines = [f"{resumed.session.id[:SHORT_ID]}: {resumed.session.title}"]
        if resumed.why:
            lines.append(f"All {len(resumed.ids)} tokens have to be read again: {resumed.why}.")
        steering = resumed.facts.steering
        if resumed.saved is None and steering is not None:
            lines.append(f"It was under /steer {steering.file} {steering.ffn:g} {steering.attention:g}.")
        workspace, here = resumed.facts.workspace, self._sessions().settings.workspace
        if workspace and workspace != here:
            lines.append(f"It was in {workspace}; now it is in {here or 'another folder'}.")
        gone = sorted(set(resumed.facts.tools) - set(self._agent.toolbox.tools))
        if gone:
            lines.append(f"Tools it had that are not here: {', '.join(gone)}.")
        now = self._agent.policy.by_tool
        kept = [f"{tool} {rule}" for tool, rule in sorted(resumed.facts.approvals.items()) if now.get(tool) is rule]
        if kept:
            lines.append(f"Remembered for its tools: {', '.join(kept)}.")
        return "\n".join([*lines, "", self._past(DEFAULT_TURNS)])

    def _change(self, word: str, prefix: str) -> str:
        sessions = self._sessions()
        if word == "/del":
            return f"deleted {self._on_agent(lambda: sessions.delete(prefix))[:SHORT_ID]}"
        return f"stripped {self._on_agent(lambda: sessions.strip(prefix))[:SHORT_ID]}"

    def _leaving(self, then: Callable[[], str], *, leaves: bool = False) -> CommandOutcome:
        """Do it once the session is safe, or the user does not mind."""
        if self._saved is not None and not self._is_safe(self._saved):
            return CommandOutcome("nothing was changed; the session goes on")
        return CommandOutcome(then(), leaves=leaves)

    def _is_safe(self, sessions: Sessions) -> bool:
        has_words, is_kept = self._on_agent(lambda: (sessions.has_words, sessions.is_kept))
        if not has_words:
            return True
        problem = sessions.flush()
        if is_kept and not problem:
            return True
        if not problem and not self._confirm("Save the current session?"):
            return True
        try:
            self._on_agent(sessions.save)
        except WhitedwarfError as error:
            return self._confirm(f"The session could not be saved: {error}. Leave it all the same?")
        return True

    def _soon(self, work: Callable[[], str], promise: str) -> CommandOutcome:
        if not self._agent.is_busy:
            return CommandOutcome(self._on_agent(work))
        self._agent.request(lambda: self._told(work()))
        return CommandOutcome(promise)

    def _told(self, text: str) -> None:
        if text:
            self._agent.tell(Notice(text))

    def _on_agent(self, work: Callable[[], T]) -> T:
        """What it gives, or raises, on the agent's thread. EngineClosedError when the agent has ended."""
        done = threading.Event()
        results: list[T] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                results.append(work())
            except Exception as error:  # raised again where it is waited for
                errors.append(error)
            finally:
                done.set()

        self._agent.request(run)
        while not done.wait(_STEP_S):
            if not self._agent.is_busy and not done.is_set():
                raise EngineClosedError("the agent has ended")
        if errors:
            raise errors[0]
        return results[0]

    def _sessions(self) -> Sessions:
        if self._saved is None:
            raise UsageError("sessions are kept only of a model that runs here")
        return self._saved


def _required(word: str, argument: str) -> str:
    if not argument:
        raise UsageError(f"{word}: expected the id of a session, such as {word} 3fa9; /list shows them")
    return argument


def _number(word: str, argument: str, default: int) -> int:
    if not argument:
        return default
    if not (argument.isascii() and argument.isdecimal()) or len(argument) > _MOST_DIGITS:
        raise UsageError(f"{word} {argument[:40]}: expected a whole number")
    return int(argument)
