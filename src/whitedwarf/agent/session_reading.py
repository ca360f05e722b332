"""What the engine has read of a conversation, brought up to date and taken down, on the agent's thread.

Promises: what is read can be interrupted like an answer and is told like a prompt; what then lacks is read with the
next answer. A snapshot is one of the beginning of the conversation, or there is none.
"""

import time
from contextlib import suppress

import numpy as np

from whitedwarf.agent.events import Listener, Reading
from whitedwarf.agent.local_dialogue import LocalDialogue, SessionEngine
from whitedwarf.agent.session_file import is_beginning
from whitedwarf.agent.store import SessionStore
from whitedwarf.agent.transcript import Ids
from whitedwarf.engine.request import Finished, FinishReason, GenerateOptions, Prefilled
from whitedwarf.engine.session import SessionSnapshot
from whitedwarf.errors import WhitedwarfError

FEW_TOKENS = 16  # what closes an answer is read at once, so that its state is whole; more waits for the next answer


class SessionReading:
    """Of one dialogue over one engine."""

    def __init__(self, engine: SessionEngine, dialogue: LocalDialogue, listen: Listener) -> None:
        self.engine = engine
        self._dialogue = dialogue
        self._listen = listen

    def read(self, ids: Ids) -> bool:
        """Have the engine read these; false when it was interrupted or failed. WhitedwarfError before any work."""
        began_s, reused = time.monotonic(), None
        generation = self.engine.submit(ids, GenerateOptions(max_tokens=0), session=self._dialogue.session)
        with self._dialogue.holding(generation):
            while (event := generation.next_event(None)) is not None:
                if isinstance(event, Prefilled):
                    reused = event.processed if reused is None else reused
                    done, total = event.processed - reused, event.total - reused
                    self._listen(Reading(done, total, reused, time.monotonic() - began_s))
                if isinstance(event, Finished):
                    return event.reason is not FinishReason.CANCELLED and event.error is None
        return False

    def opening(self, store: SessionStore) -> None:
        """Have the system's part read, from disk where it was read before, and keep it. Raises OSError when it cannot
        be kept, WhitedwarfError when it cannot be read."""
        if not store.keeps_states or self._known():
            return
        ids = self._dialogue.transcript.ids[: self._dialogue.opening_length]
        saved = store.system_prompt(ids)
        if saved is not None:
            self._dialogue.session = self.engine.new_session(saved)
        elif self.read(ids):
            store.keep_system_prompt(self.engine.snapshot(self._dialogue.session))

    def snapshot(self, ids: Ids, *, reads_on: bool) -> SessionSnapshot | None:
        """The state after all of these, or most; None where the engine has read something else. `reads_on`: a few
        tokens that lack are read first."""
        unread = self.unread(ids)
        if unread is None or unread == len(ids):
            return None
        if reads_on and 0 < unread <= FEW_TOKENS:
            self._quietly(ids)
        return self.engine.snapshot(self._dialogue.session)

    def unread(self, ids: Ids) -> int | None:
        """How many of these the engine has not read; None where it has read something else."""
        known = np.array(self._known(), np.int32)
        return len(ids) - len(known) if is_beginning(known, ids) else None

    def _known(self) -> list[int]:
        """What the engine's session has read; a script's has nothing."""
        known: list[int] = getattr(self._dialogue.session, "ids", [])
        return known

    def _quietly(self, ids: Ids) -> None:
        with suppress(WhitedwarfError):  # then the snapshot is of less
            self.engine.submit(ids, GenerateOptions(max_tokens=0), session=self._dialogue.session).result()
