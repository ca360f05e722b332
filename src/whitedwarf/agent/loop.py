"""The agent: a thread on which the model's answers, tools and commands happen one after another.

Promises: `submit`, `interrupt` and their like return at once, from any thread; whoever listens is called on the agent's
thread, in order; a turn that begins is told to have ended, whatever happens in it.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from whitedwarf.agent.approval import Policy
from whitedwarf.agent.dialogue import Dialogue
from whitedwarf.agent.events import AnswerEnd, Event, Listener, Notice, QueueChanged, TurnEnded
from whitedwarf.agent.rounds import Rounds
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.agent.tool import Toolbox
from whitedwarf.errors import WhitedwarfError

log = logging.getLogger(__name__)

CLOSE_S = 30.0


class Agent:
    """Close it in the end. A dialogue that nothing was said in yet is begun; another one is gone on with."""

    def __init__(
        self, dialogue: Dialogue, toolbox: Toolbox, policy: Policy, listen: Listener, settings: AgentSettings
    ) -> None:
        self.dialogue = dialogue
        self.toolbox = toolbox
        self.policy = policy
        self._listen = listen
        self._changed = threading.Condition()  # guards what follows
        self._queued: deque[str] = deque()
        self._requests: deque[Callable[[], None]] = deque()
        self._is_busy = True  # until the session has begun
        self._is_closing = False
        self._announced: tuple[str, ...] = ()  # the queue as it was told last; the agent's thread only
        self._interrupted = threading.Event()
        self._rounds = Rounds(
            dialogue,
            toolbox,
            policy,
            self.tell,
            settings,
            interrupted=self._interrupted,
            take_queued=self._take_all,
            at_safe_point=self._obey_requests,
        )
        self._thread = threading.Thread(target=self._run, name="whitedwarf-agent", daemon=True)
        self._thread.start()

    # from any thread

    def submit(self, text: str) -> None:
        """Say this: at once, or behind the tool that runs, or when the turn is over. Nothing, once it is closing."""
        with self._changed:
            if not self._is_closing:
                self._queued.append(text)
                self._changed.notify_all()

    def take_queued(self) -> str | None:
        """The oldest words that were not said yet, which will not be said now; None where all were."""
        with self._changed:
            return self._queued.popleft() if self._is_busy and self._queued else None

    @property
    def queued(self) -> tuple[str, ...]:
        """What was not said yet, oldest first; `QueueChanged` tells of it as soon as the agent's thread can."""
        with self._changed:
            return tuple(self._queued)

    def interrupt(self) -> None:
        """End what is in hand; queued words are said afterwards. When idle, nothing."""
        with self._changed:
            is_busy = self._is_busy or self._queued
            if is_busy:
                self._interrupted.set()
        if is_busy:
            self.dialogue.interrupt()

    def request(self, work: Callable[[], None]) -> None:
        """Run this on the agent's thread at the next safe point; what it raises is told as a notice."""
        with self._changed:
            if not self._is_closing:
                self._requests.append(work)
                self._changed.notify_all()

    @property
    def is_busy(self) -> bool:
        """Whether anything is done, or waits to be."""
        with self._changed:
            return self._has_work()

    def wait_idle(self, timeout_s: float | None = None) -> bool:
        """Whether everything was done in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._has_work(), timeout_s)

    def close(self) -> None:
        """End what runs, jobs of tools too, and wait for it. Again does nothing."""
        with self._changed:
            self._is_closing = True
            self._queued.clear()
            self._changed.notify_all()
        self._interrupted.set()
        self.dialogue.interrupt()
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_S)
        self.toolbox.close()

    # on the agent's thread, as by `request`

    @property
    def settings(self) -> AgentSettings:
        """How it works; another value counts from the next answer, or session, on."""
        return self._rounds.settings

    @settings.setter
    def settings(self, value: AgentSettings) -> None:
        self._rounds.settings = value

    def new_session(self) -> None:
        """Forget everything, also what the user has allowed, and begin anew."""
        self.policy.begin()
        self._rounds.begin()

    def resume_session(self) -> None:
        """The dialogue was given a session that was begun earlier."""
        self._rounds.resume()

    def compact(self) -> None:
        """Shorten the context; Cancelled, or another WhitedwarfError, leaves it as it was."""
        self._rounds.compact()

    def tell(self, event: Event) -> None:
        """Whoever listens hears this."""
        waiting = self.queued if self._queued or self._announced else ()
        if waiting != self._announced:
            self._announced = waiting
            self._tell(QueueChanged(waiting))
        self._tell(event)

    def _tell(self, event: Event) -> None:
        try:
            self._listen(event)
        except Exception:  # a screen's trouble is not the session's
            log.exception("listener_failed")

    def _run(self) -> None:
        self._guarded(self._begin)
        while self._wait_for_work():
            self._obey_before_a_turn()
            text = self._take_all()
            if text is not None:
                self._turn(text)
        with self._changed:
            self._is_busy = False
            self._requests.clear()
            self._changed.notify_all()

    def _begin(self) -> None:
        if self.dialogue.used_tokens:
            self._rounds.resume()
        else:
            self._rounds.begin()

    def _wait_for_work(self) -> bool:
        """Sleep until there is something to do; False when the agent is to end."""
        with self._changed:
            self._is_busy = False
            self._interrupted.clear()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._queued or self._requests or self._is_closing)
            self._is_busy = True
            return not self._is_closing

    def _obey_before_a_turn(self) -> None:
        """An interruption meanwhile was one of a request, and is none of the words that waited behind that."""
        with self._changed:
            has_requests = bool(self._requests)
        self._obey_requests()
        with self._changed:
            if has_requests and not self._is_closing:
                self._interrupted.clear()

    def _has_work(self) -> bool:
        return bool(self._is_busy or self._queued or self._requests)

    def _obey_requests(self) -> None:
        while True:
            with self._changed:
                if not self._requests or self._is_closing:
                    return
                work = self._requests.popleft()
            self._guarded(work)

    def _take_all(self) -> str | None:
        """All that waits, as one."""
        with self._changed:
            texts = tuple(self._queued)
            self._queued.clear()
        if self._announced:
            self._announced = ()
            self._tell(QueueChanged(()))
        return merged(texts) if texts else None

    def _turn(self, text: str) -> None:
        end = AnswerEnd.FAULTY
        try:
            end = self._rounds.turn(text)
        except WhitedwarfError as error:
            self.tell(Notice(str(error), is_error=True))
        except Exception as error:  # so that the session goes on
            log.exception("turn_failed")
            self.tell(Notice(f"The turn failed: {type(error).__name__}: {error}", is_error=True))
        self.tell(TurnEnded(end, self.dialogue.used_tokens))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except WhitedwarfError as error:
            self.tell(Notice(str(error), is_error=True))
        except Exception as error:  # as above
            log.exception("request_failed")
            self.tell(Notice(f"That failed: {type(error).__name__}: {error}", is_error=True))


def merged(texts: Sequence[str]) -> str:
    """Several prompts as one, each under its number."""
    if len(texts) == 1:
        return texts[0]
    return "\n\n".join(f"## Message {number}\n\n{text}" for number, text in enumerate(texts, 1))
