"""The folder of saved sessions (product.md C.9): lists, finds, opens, deletes and strips them; the system's prompt too.

A session's name is the SHA-1 of its title and of when it began, so it stays the same however often it is saved.
Promises: files are private and appear whole or not at all; a session that a process has open is changed by nobody else;
what cannot be used is told with the reason; a state is given out only to the model that made it, under the same
steering.
"""

import hashlib
import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from whitedwarf.agent.journal import Journal, SessionInUseError, is_in_use, read_records, remove_unused, replayed
from whitedwarf.agent.open_session import OpenSession
from whitedwarf.agent.session_facts import Kept, SessionFacts
from whitedwarf.agent.session_file import (
    Head,
    StateForm,
    is_beginning,
    opened,
    parts_of,
    read_head,
    read_ids,
    read_kept,
    stripped_parts,
)
from whitedwarf.agent.transcript import Ids
from whitedwarf.engine.session import SessionSnapshot
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.kvstore.directory import FILE_NAME, Directory, Signature
from whitedwarf.kvstore.file import KvFile
from whitedwarf.kvstore.policy import Entry
from whitedwarf.kvstore.settings import StoreSettings
from whitedwarf.kvstore.stats import Tally
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.prompt.token_words import TokenWords
from whitedwarf.prompt.tokenizer import Tokenizer

DEFAULT_FOLDER = Path("~/.whitedwarf/sessions")
SYSTEM_PROMPT = "sysprompt"
SHORT_ID = 8
HEX = re.compile(r"[0-9a-f]{1,40}")

log = logging.getLogger(__name__)


class OtherModelError(FileFormatError):
    """A healthy session of another model."""


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A saved session, without its tokens. `num_tokens` are those of its file."""

    id: str
    title: str
    created: int  # unix seconds, as `last_used`
    last_used: int
    num_tokens: int
    size_bytes: int
    is_stripped: bool
    facts: SessionFacts

    @property
    def short_id(self) -> str:
        """What people type."""
        return self.id[:SHORT_ID]


@dataclass(frozen=True, slots=True)
class Listing:
    """The sessions of this model, last used first, and why some cannot be used."""

    entries: tuple[SessionEntry, ...]
    problems: tuple[str, ...] = ()
    num_others: int = 0  # of other models


@dataclass(frozen=True, slots=True)
class Resumed:
    """A session that was opened. `ids` are all its tokens, `saved` the state after the first of them, if there is one:
    otherwise `why` says that they are read again, and for what reason."""

    session: OpenSession
    ids: Ids
    facts: SessionFacts
    saved: SessionSnapshot | None
    why: str = ""


class SessionStore:
    """The sessions of one model in one folder, which other processes may use too."""

    def __init__(
        self,
        settings: StoreSettings,
        tokenizer: Tokenizer,
        model: DeepSeek | None,
        *,
        weights: int = 0,
        mark_of: Callable[[DeepSeek], int] = lambda model: 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`weights` is the mark of the model without steering, `settings.model_mark` that with it, `mark_of` gives that
        of the same weights under another one. Without a model no states are kept. Makes the folder, private. Raises
        OSError."""
        self.settings = settings
        self._mark_of = mark_of
        self._clock = clock
        self._form = StateForm(settings, model, weights)
        self._tokenizer = tokenizer
        self._words = TokenWords(tokenizer)
        self._heads: dict[str, tuple[Signature, Head]] = {}
        self._directory = Directory(settings.directory, log.info, Tally(), _no_entry)
        self._sweep()

    def change_model(self, model: DeepSeek) -> None:
        """The same weights under another steering; nothing must be on its way to disk meanwhile."""
        self.settings = replace(self.settings, model_mark=self._mark_of(model))
        self._form.change_model(self.settings, model)

    @property
    def keeps_states(self) -> bool:
        """Whether there is a model whose states can be kept."""
        return self._form.keeps_states

    def listing(self) -> Listing:
        """Opens every file, but reads of none its state."""
        entries, problems, num_others = [], [], 0
        for session_id in self._ids():
            try:
                head = self._head(session_id)
                self._check_model(session_id, head)
            except OtherModelError:
                num_others += 1
                continue
            except (FileFormatError, OSError) as error:
                problems.append(str(error))
                continue
            entries.append(_entry(session_id, head))
        entries.sort(key=lambda entry: (-entry.last_used, -entry.created, entry.id))
        return Listing(tuple(entries), tuple(problems), num_others)

    def find(self, prefix: str) -> str:
        """The id that begins so; UsageError when there is none, or more than one."""
        wanted = prefix.strip().lower()
        if not HEX.fullmatch(wanted):
            raise UsageError(f"expected the first digits of a session's id, such as 3fa9, got {prefix.strip()[:40]!r}")
        found = [session_id for session_id in self._ids() if session_id.startswith(wanted)]
        if not found:
            raise UsageError(f"there is no session {wanted}; /list shows those that are there")
        if len(found) > 1:
            shown = ", ".join(session_id[: max(SHORT_ID, len(wanted) + 2)] for session_id in found[:4])
            raise UsageError(f"{wanted} begins the ids of {len(found)} sessions ({shown}): give more digits")
        return found[0]

    def is_open(self, session_id: str) -> bool:
        """Whether some process has it, this one included."""
        return is_in_use(self._journal_path(session_id))

    def create(self, prompt: str, ids: Ids, facts: SessionFacts) -> OpenSession:
        """A new session, titled by the user's first words; it is in the list from now on, without a state.

        Raises OSError.
        """
        session = self._claimed(normalised(prompt), int(self._clock()))
        try:
            session.begin(ids)
            session.save(ids, None, facts)
        except BaseException:
            session.close()
            raise
        return session

    def open(self, session_id: str) -> Resumed:
        """Take a session, to go on with it. Raises SessionInUseError, FileFormatError for a file of another model, a
        larger context or one that is damaged, and OSError."""
        head = self._head(session_id)  # the reason before a lock is left behind
        self._check_model(session_id, head)
        session = self._opened(session_id, head.title, head.header.created)
        try:
            return self._resumed(session)
        except BaseException:
            session.close()
            raise

    def read(self, session_id: str) -> tuple[Ids, SessionFacts]:
        """All tokens of a session that may be open elsewhere, to look at. FileFormatError, OSError."""
        with opened(self._path(session_id)) as file:
            kept = self._kept(file)
        return replayed(kept.ids, read_records(self._journal_path(session_id))), kept.facts

    def delete(self, session_id: str) -> None:
        """SessionInUseError where it is open; OSError."""
        journal = self._journal(session_id)
        try:
            self._directory.remove(session_id)
            journal.clear()
        finally:
            journal.close()

    def strip(self, session_id: str) -> None:
        """Take the state out of the file: opening it reads all its tokens again. Errors as of `open`."""
        journal = self._journal(session_id)
        try:
            with opened(self._path(session_id)) as file:
                read_head(file)
                kept = self._kept(file)
                parts = stripped_parts(file, self._words.text(kept.ids), len(kept.ids))
                self._directory.write(session_id, parts)
        finally:
            journal.close()

    def system_prompt(self, ids: Ids) -> SessionSnapshot | None:
        """The state after the system's part, where it was kept for exactly these tokens and this model."""
        try:
            with KvFile(self._path(SYSTEM_PROMPT)) as file:
                if self._state_problem(file) or not np.array_equal(read_ids(file), ids):
                    return None
                return self._form.read(file)
        except FileNotFoundError:
            return None
        except (FileFormatError, OSError) as error:
            log.info("system_prompt_not_used", extra={"why": str(error)})
            return None

    def keep_system_prompt(self, saved: SessionSnapshot) -> None:
        """For the next start; nothing where there is no state to keep. Raises OSError."""
        payload = self._form.payload(saved)
        if payload is None:
            return
        now, facts = int(self._clock()), self._form.true(SessionFacts())
        text, kept = self._words.text(saved.ids), Kept(saved.ids, facts)
        self._directory.write(SYSTEM_PROMPT, parts_of(self._form, text, None, kept, payload, now, now))

    def _ids(self) -> list[str]:
        with suppress(FileNotFoundError):
            found = (FILE_NAME.fullmatch(path.name) for path in self.settings.directory.iterdir())
            return sorted(match[1] for match in found if match)
        return []

    def _sweep(self) -> None:
        """Journals whose session is gone."""
        for path in self.settings.directory.glob("*.journal"):
            session = self._path(path.stem)
            if not session.exists():
                with suppress(OSError):
                    remove_unused(path, session.exists)

    def _claimed(self, title: str, created: int) -> OpenSession:
        """A session that nobody has; the same words in the same second make another one."""
        while True:
            session_id = id_of(title, created)
            with suppress(SessionInUseError):
                session = self._opened(session_id, title, created)
                if not self._path(session_id).exists():
                    return session
                session.close()
            created += 1

    def _head(self, session_id: str) -> Head:
        """Of a file that is the same as last time, without a look into it."""
        path = self._path(session_id)
        signature = _signature(path)
        known = self._heads.get(session_id)
        if known is not None and known[0] == signature:
            return known[1]
        with opened(path) as file:
            file.make_private()
            head = read_head(file)
        self._heads[session_id] = signature, head
        return head

    def _check_model(self, session_id: str, head: Head) -> None:
        header, name = head.header, session_id[:SHORT_ID]
        marks = {head.facts.weights, self._form.weights} - {0}
        if header.model_id != self.settings.model_id or len(marks) > 1:
            model = f" ({head.facts.model})" if head.facts.model else ""
            raise OtherModelError(f"session {name} is of another model{model}: start with that one to go on with it")
        here = self.settings.layout.context_length
        if header.context_length > here:
            raise FileFormatError(
                f"session {name} was saved with a context of {header.context_length}, here it is {here}: "
                f"start with --ctx {header.context_length}"
            )

    def _resumed(self, session: OpenSession) -> Resumed:
        with opened(self._path(session.id)) as file:
            kept = self._kept(file)
            saved, why = self._state(file, kept.ids)
        ids = session.replay(kept.ids)
        if saved is not None and not is_beginning(saved.ids, ids):
            saved, why = None, "it has been changed since its state was saved"
        with suppress(OSError, FileFormatError), KvFile(self._path(session.id), writable=True) as file:
            file.mark_used(int(self._clock()))
        return Resumed(session, ids, kept.facts, saved, why)

    def _kept(self, file: KvFile) -> Kept:
        """The exact tokens; of a file of ds4 those of its state, or else what its text is tokenised to."""
        kept = read_kept(file)
        if kept is not None:
            return kept
        if file.header.payload_bytes:
            return Kept(read_ids(file), SessionFacts())
        text = file.text().decode(errors="replace")
        return Kept(np.array(self._tokenizer.encode_rendered(text), np.int32), SessionFacts())

    def _state(self, file: KvFile, ids: Ids) -> tuple[SessionSnapshot | None, str]:
        if not file.header.payload_bytes:
            return None, "no state was saved with it"
        problem = self._state_problem(file)
        if problem is not None:
            return None, problem
        try:
            saved = self._form.read(file)
        except FileFormatError as error:
            return None, str(error)
        if not is_beginning(saved.ids, ids):
            return None, "its state is of other tokens"
        return saved, ""

    def _state_problem(self, file: KvFile) -> str | None:
        """Why the state of a file is of no use here."""
        kept = read_kept(file)
        steering = None if kept is None else kept.facts.steering
        digest = "" if steering is None else steering.digest
        if kept is not None and digest != self._form.digest:
            return f"its state was made {'under' if digest else 'without'} a steering that is not the one here"
        if 0 not in (marks := {file.header.model_mark, self.settings.model_mark}) and len(marks) > 1:
            return "its state was made by another backend, or with other weights"
        return self.settings.problem(file.header)

    def _opened(self, session_id: str, title: str, created: int) -> OpenSession:
        return OpenSession(
            session_id, title, created, self._journal(session_id), self._directory, self._form, self._words, self._clock
        )

    def _journal(self, session_id: str) -> Journal:
        """The session is this process's; what a writer that was killed left of it goes."""
        journal = Journal(self._journal_path(session_id), session_id[:SHORT_ID])
        for path in self.settings.directory.glob(f"{session_id}.kv.tmp.*"):
            with suppress(OSError):
                path.unlink()
        return journal

    def _path(self, session_id: str) -> Path:
        return self._directory.path_of(session_id)

    def _journal_path(self, session_id: str) -> Path:
        return self.settings.directory / f"{session_id}.journal"


def _signature(path: Path) -> Signature:
    try:
        status = path.lstat()
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_mtime_ns


def normalised(prompt: str) -> str:
    """A title: the words of a prompt on one line."""
    return " ".join(prompt.split())


def id_of(title: str, created: int) -> str:
    """40 hexadecimal digits."""
    return hashlib.sha1(title.encode(errors="replace") + created.to_bytes(8, "little")).hexdigest()


def _entry(session_id: str, head: Head) -> SessionEntry:
    header = head.header
    return SessionEntry(
        session_id,
        head.title,
        header.created,
        header.last_used,
        header.num_tokens,
        head.size_bytes,
        head.is_stripped,
        head.facts,
    )


def _no_entry(file: KvFile) -> Entry:
    raise FileFormatError(f"{file.path.name}: a session is no prefix")
