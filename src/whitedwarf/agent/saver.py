"""Writes sessions to disk on a thread of its own, so that nobody waits for gigabytes.

Promises: of a session that is offered again while it waits only the newest is written; after `flush` all that was
offered before is on disk or was told to have failed. A state that waits keeps its memory.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from whitedwarf.agent.open_session import OpenSession
from whitedwarf.agent.session_facts import SessionFacts
from whitedwarf.agent.transcript import Ids
from whitedwarf.engine.session import SessionSnapshot

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Save:
    """What is to be written."""

    session: OpenSession
    ids: Ids
    saved: SessionSnapshot | None
    facts: SessionFacts


class Saver:
    """`failed` is called on the writer's thread, with the session and what is to be said about it. Close it."""

    def __init__(self, failed: Callable[[OpenSession, str], None]) -> None:
        self._failed = failed
        self._changed = threading.Condition()  # guards what follows
        self._waiting: dict[str, Save] = {}
        self._is_writing = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="whitedwarf-session-writer", daemon=True)
        self._thread.start()

    def offer(self, save: Save) -> None:
        """Write this soon, instead of what waits of the same session."""
        with self._changed:
            self._waiting.pop(save.session.id, None)
            self._waiting[save.session.id] = save
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything is written."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._is_writing)

    def close(self) -> None:
        """Write what waits, end. Again does nothing."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while (save := self._next()) is not None:
            self._write(save)
            del save  # and the state in it
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()

    def _next(self) -> Save | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            if not self._waiting:
                return None
            self._is_writing = True
            return self._waiting.pop(next(iter(self._waiting)))

    def _write(self, save: Save) -> None:
        try:
            save.session.save(save.ids, save.saved, save.facts)
        except Exception as error:  # a full disk, or memory: the next one may fit
            log.warning("session_not_saved", exc_info=True, extra={"session": save.session.id})
            self._failed(save.session, f"the session could not be saved: {error}")
