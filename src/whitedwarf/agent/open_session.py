"""A session that this process has: its tokens are journalled as they come, its state is written now and then.

Promises: what `note` was told survives the death of the process; a file is replaced whole or not at all; nothing that
was noted while a file was being written is lost with the journal, and a journal that could not take the latest tokens
does not outlive a file that has them. `note` and `save` may run in two threads.
"""

import threading
from collections.abc import Callable

import numpy as np

from whitedwarf.agent.journal import Journal, checksum, replayed
from whitedwarf.agent.session_facts import Kept, SessionFacts
from whitedwarf.agent.session_file import StateForm, is_beginning, parts_of
from whitedwarf.agent.transcript import Ids
from whitedwarf.engine.session import SessionSnapshot
from whitedwarf.gguf.file_lock import sync_folder
from whitedwarf.kvstore.directory import Directory
from whitedwarf.prompt.token_words import TokenWords


class OpenSession:
    """Made by `SessionStore`; close it."""

    def __init__(
        self,
        id: str,
        title: str,
        created: int,
        journal: Journal,
        directory: Directory,
        form: StateForm,
        words: TokenWords,
        clock: Callable[[], float],
    ) -> None:
        self.id = id
        self.title = title
        self._created = created
        self._journal = journal
        self._directory, self._form, self._words, self._clock = directory, form, words, clock
        self._noting = threading.Lock()  # the journal and what it was told last
        self._saving = threading.Lock()
        self._noted: Ids = np.empty(0, np.int32)
        self._missed: set[int] = set()  # checksums of later tokens, which the journal could not take
        self._is_closed = False

    def begin(self, ids: Ids) -> None:
        """A new session, of which nothing is on disk. Raises OSError."""
        with self._noting:
            self._journal.clear()
            self._noted = ids

    def replay(self, ids: Ids) -> Ids:
        """`ids` of its file with what the journal has beyond them."""
        with self._noting:
            self._noted = replayed(ids, self._journal.records)
            return self._noted

    def note(self, ids: Ids) -> None:
        """All tokens as they are now. Raises OSError; then the journal holds what it held."""
        with self._noting:
            if self._is_closed:
                return
            try:
                self._journal.append(self._noted, ids)
            except OSError:
                self._missed.add(checksum(ids))
                raise
            self._noted = ids
            self._missed.clear()

    def save(self, ids: Ids, saved: SessionSnapshot | None, facts: SessionFacts) -> int:
        """Write the file, with the state where it is one of these tokens -> its size in bytes. Raises OSError."""
        payload = self._form.payload(saved) if saved is not None and is_beginning(saved.ids, ids) else None
        text = self._words.text(ids if payload is None else payload.ids)
        now = int(self._clock())
        with self._saving:
            with self._noting:
                is_newest, end = np.array_equal(self._noted, ids) or checksum(ids) in self._missed, self._journal.end
            parts = parts_of(
                self._form, text, self.title, Kept(ids, self._form.true(facts)), payload, self._created, now
            )
            self._directory.write(self.id, parts)
            sync_folder(self._directory.path)  # before the journal forgets
            with self._noting:
                if is_newest and self._journal.end == end:
                    self._journal.clear()
                    self._noted = ids
        return self._directory.path_of(self.id).stat().st_size

    def close(self) -> None:
        """Give it back to others. Again does nothing."""
        with self._saving, self._noting:
            self._is_closed = True
            self._journal.close()
