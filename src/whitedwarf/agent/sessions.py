"""The session the agent is in, and its way to disk and back (product.md C.9).

It listens to the agent and passes everything on: with the user's first words it begins a file, after every answer it
notes the tokens, after every turn, and now and then in a long one, it hands the state to the writer. Promises: what
ends suddenly has lost at most the turn it was in; a session that is left is on disk, or the user has been told.
Everything but `listing` and `flush` happens on the agent's thread.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from whitedwarf.agent.approval import Rule
from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    Event,
    Listener,
    Notice,
    SessionChanged,
    TurnBegan,
    TurnEnded,
)
from whitedwarf.agent.local_dialogue import LocalDialogue, SessionEngine
from whitedwarf.agent.loop import Agent
from whitedwarf.agent.open_session import OpenSession
from whitedwarf.agent.saver import Save, Saver
from whitedwarf.agent.session_facts import SessionFacts, SteeringFacts
from whitedwarf.agent.session_reading import SessionReading
from whitedwarf.agent.store import SHORT_ID, Listing, Resumed, SessionStore
from whitedwarf.agent.transcript import Ids
from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.model.deepseek import DeepSeek

STATE_STEP_TOKENS = 2048
_GOING_ON = (AnswerEnd.CALLS, AnswerEnd.REFUSED, AnswerEnd.FAULTY)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """`model` is a name for people. Without `autosave` a session is written when the user says so."""

    model: str = ""
    workspace: str = ""
    autosave: bool = True


class Sessions:
    """Give `hear` to the agent as its listener, and the agent to `attach`; close it after the agent."""

    def __init__(
        self,
        store: SessionStore,
        engine: SessionEngine,
        dialogue: LocalDialogue,
        listen: Listener,
        settings: SessionSettings | None = None,
    ) -> None:
        self.store = store
        self.settings = settings or SessionSettings()
        self.steering: SteeringFacts | None = None  # only its file's name is taken from here
        self._dialogue = dialogue
        self._listen = listen
        self._reading = SessionReading(engine, dialogue, listen)
        self._saver = Saver(self._failed)
        self._agent: Agent | None = None
        self._open: OpenSession | None = None
        self._first_words = ""
        self._noted: Ids | None = None  # the tokens that are safe
        self._problem = ""  # why the latest save failed
        self._untold = ""  # the same, until the user has heard of it
        self._is_in_turn = False
        self._offered_tokens = 0  # so many tokens the session had when its state was handed on last

    def attach(self, agent: Agent) -> None:
        """At once after the agent was made, before the user's first words."""
        self._agent = agent

    # any thread

    @property
    def current_id(self) -> str:
        """The session's id; empty while it has none."""
        session = self._open
        return "" if session is None else session.id

    def listing(self) -> Listing:
        """The sessions on disk."""
        return self.store.listing()

    def flush(self) -> str:
        """Wait for the writer; why the latest save failed, or nothing."""
        self._saver.flush()
        return self._problem

    def close(self) -> None:
        """Write what waits and give the session back; the agent has ended, or never began. Again does nothing."""
        self._saver.close()
        self._tell_failure()
        if self._open is not None:
            self._open.close()
            self._open = None

    # the agent's thread

    def hear(self, event: Event) -> None:
        """One of the agent's events; passed on first, or last when it is about to be thought about for long."""
        self._listen(event)
        match event:
            case TurnBegan(text):
                self._begin_turn(text)
            case AnswerEnded(end=end) if self._open is not None:
                self._guarded(self._note)
                if end in _GOING_ON and self.settings.autosave:
                    self._guarded(self._offer_now_and_then)
            case TurnEnded():
                self._is_in_turn = False
                self.keep()

    @property
    def has_words(self) -> bool:
        """Whether the user has said anything in this session."""
        return bool(self._first_words)

    @property
    def is_kept(self) -> bool:
        """Whether leaving loses nothing: all was noted, or nothing was said."""
        if not self.has_words:
            return True
        return self._noted is not None and np.array_equal(self._noted, self._dialogue.ids)

    def keep(self) -> None:
        """Note the tokens, and have the state written, where the session is on disk."""
        if self._open is None:
            return
        self._guarded(self._note)
        if self.settings.autosave:
            self._guarded(self._offer)

    def save(self) -> str:
        """Write the session, wait until it is on disk, and say how it is called. UsageError where nothing was said;
        WhitedwarfError when it could not be written."""
        if not self.has_words:
            raise UsageError("nothing was said yet, so there is nothing to save")
        with self._told():
            self._create()
            self._note()
            self._offer()
        problem = self.flush()
        if problem:
            raise WhitedwarfError(problem)
        session = self._session()
        return f"saved as {session.id[:SHORT_ID]} ({len(self._dialogue.ids)} tokens): {session.title[:60]}"

    def begin_new(self) -> None:
        """Leave the session, as it is on disk, and begin another. UsageError in the middle of a turn."""
        self.check_idle()
        self._let_go()
        self._the_agent().new_session()
        self._listen(SessionChanged("", "", self._dialogue.used_tokens))

    def switch(self, prefix: str) -> Resumed:
        """Go on with another session; nothing has changed when it raises UsageError, FileFormatError or
        WhitedwarfError. What its state lacks is read, which may be interrupted."""
        self.check_idle()
        session_id = self.store.find(prefix)
        self._check_other(session_id, "you are in it already")
        with self._told():
            resumed = self.store.open(session_id)
        self._let_go()
        self._open, self._first_words, self._noted = resumed.session, resumed.session.title or "-", resumed.ids
        self._offered_tokens = 0 if resumed.saved is None else len(resumed.saved.ids)
        self._dialogue.resume(resumed.ids.tolist(), self._reading.engine.new_session(resumed.saved))
        self._the_agent().resume_session()
        self._apply(resumed.facts)
        self._listen(SessionChanged(resumed.session.id, resumed.session.title, len(resumed.ids)))
        if self.store.keeps_states and resumed.saved is None and len(resumed.ids):
            self._read_all(resumed.ids)
        return resumed

    def change_model(self, model: DeepSeek, steering: SteeringFacts | None) -> None:
        """The engine answers with the same weights under another steering from now on: all is read again with the next
        answer. UsageError in the middle of a turn."""
        self.check_idle()
        self._saver.flush()
        self.store.change_model(model)
        self.steering = steering
        self._dialogue.session = self._reading.engine.new_session()

    def delete(self, prefix: str) -> str:
        """Delete a session that is not the one the agent is in -> its id."""
        session_id = self.store.find(prefix)
        self._check_other(session_id, "begin another one with /new first, then delete it")
        with self._told():
            self.store.delete(session_id)
        return session_id

    def strip(self, prefix: str) -> str:
        """Take the state out of a session's file -> its id."""
        session_id = self.store.find(prefix)
        self._check_other(session_id, "leave it with /new first: it would be saved with its state again")
        with self._told():
            self.store.strip(session_id)
        return session_id

    def _begin_turn(self, text: str) -> None:
        self._is_in_turn = True
        self._first_words = self._first_words or text
        self._guarded(self._read_opening)
        if self.settings.autosave:
            self._guarded(self._create)
        if self._open is not None:
            self._guarded(self._note)

    def _read_opening(self) -> None:
        with suppress(WhitedwarfError):  # the answer will meet it, too
            self._reading.opening(self.store)

    def _read_all(self, ids: Ids) -> None:
        try:
            is_read = self._reading.read(ids)
        except WhitedwarfError as error:  # such as too little room: the next turn makes some, or tells
            log.info("session_not_read", extra={"why": str(error)})
            return
        if not is_read:
            self._listen(Notice("Not all of the session was read; the rest is read with your next words."))

    def _create(self) -> None:
        if self._open is not None:
            return
        ids = self._dialogue.ids
        self._open = self.store.create(self._first_words, ids, self._facts())
        self._noted = ids
        self._listen(SessionChanged(self._open.id, self._open.title, len(ids)))

    def _note(self) -> None:
        ids = self._dialogue.ids
        self._session().note(ids)
        self._noted = ids

    def _offer_now_and_then(self) -> None:
        """A long turn that is killed costs so many tokens to be read; a context that was shortened would cost all."""
        added = len(self._dialogue.ids) - self._offered_tokens
        if added >= STATE_STEP_TOKENS or added < 0:
            self._offer(reads_on=False)

    def _offer(self, *, reads_on: bool = True) -> None:
        """A file without a state never replaces one with it: the tokens are in the journal."""
        ids = self._dialogue.ids
        saved = self._reading.snapshot(ids, reads_on=reads_on)
        self._problem = ""
        if saved is None and self.store.keeps_states:
            return
        self._offered_tokens = len(ids)
        self._saver.offer(Save(self._session(), ids, saved, self._facts()))

    def _facts(self) -> SessionFacts:
        agent = self._the_agent()
        return SessionFacts(
            thinking=self._dialogue.thinking,
            approvals=agent.policy.remembered,
            steering=self.steering,
            workspace=self.settings.workspace,
            tools=tuple(agent.toolbox.tools),
            model=self.settings.model,
        )

    def _apply(self, facts: SessionFacts) -> None:
        self._dialogue.thinking = facts.thinking
        is_here = facts.workspace == self.settings.workspace  # what was allowed there is not allowed here
        remembered = {tool: rule for tool, rule in facts.approvals.items() if is_here or rule is not Rule.AUTO}
        agent = self._the_agent()
        agent.policy.begin(agent.toolbox.tools.values(), remembered)

    def _let_go(self) -> None:
        """Give the session back, when it is on disk."""
        self._saver.flush()
        if self._open is not None:
            self._open.close()
        self._open, self._first_words, self._noted, self._problem = None, "", None, ""
        self._offered_tokens = 0

    def check_idle(self) -> None:
        """UsageError in the middle of a turn."""
        if self._is_in_turn:  # a turn began after the command was given
            raise UsageError("the agent is at work; wait for it, or interrupt it first")

    def _check_other(self, session_id: str, otherwise: str) -> None:
        if session_id == self.current_id:
            raise UsageError(f"{session_id[:SHORT_ID]} is this session: {otherwise}")

    def _session(self) -> OpenSession:
        assert self._open is not None, "there is a session"
        return self._open

    def _the_agent(self) -> Agent:
        assert self._agent is not None, "attach comes first"
        return self._agent

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WhitedwarfError(f"{self.store.settings.directory}: {error.strerror or error}") from error

    def _guarded(self, work: Callable[[], None]) -> None:
        """A disk's trouble is told, once, and is not the turn's."""
        try:
            with self._told():
                work()
        except WhitedwarfError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                self._listen(Notice(f"The session is not being saved: {error}", is_error=True))

    def _failed(self, session: OpenSession, why: str) -> None:
        """On the writer's thread."""
        if session is not self._open:
            return
        self._problem = why
        agent = self._agent
        if agent is not None:
            self._untold = why[0].upper() + why[1:]
            agent.request(self._tell_failure)

    def _tell_failure(self) -> None:
        """Once; of what failed while the agent ended, `close` tells."""
        untold, self._untold = self._untold, ""
        if untold:
            self._listen(Notice(untold, is_error=True))
