"""The directory of saved prefixes: finds the best one for a prompt, writes new ones, keeps to its budget.

Promises: files are private (0600, in a directory made 0700) and appear whole or not at all, whenever the process dies;
a file that cannot be used is skipped with one line in the log; no failure of the disk fails a request. One thread at a
time; other processes may use the directory too.
"""

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from whitedwarf.errors import FileFormatError
from whitedwarf.kvstore import policy
from whitedwarf.kvstore.file import (
    HAS_TOOLS,
    HEAD_BYTES,
    KNOWN_FLAGS,
    TEXT_SIZE,
    Header,
    KvFile,
    Reason,
    ToolBlocks,
    encode_tools,
    write_all,
)
from whitedwarf.kvstore.payload import Layout, Payload, read_payload, write_payload
from whitedwarf.kvstore.policy import Entry, Incoming, Limits

FILE_NAME = re.compile(r"([0-9a-f]{40})\.kv")
TEMPORARY_NAME = re.compile(r"[0-9a-f]{40}\.kv\.tmp\.([0-9]{1,9})")
DEFAULT_BUDGET_BYTES = 4096 << 20

Log = Callable[[str], None]
T = TypeVar("T")
Signature = tuple[int, int, int]  # inode, size, time of change: another file, or the same one changed


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """What the store must know of the model beside, and the user's wishes. Marks of 0 match every file."""

    directory: Path
    layout: Layout
    quant_bits: int = 2
    model_id: int = 0
    row_kind: int = 0  # of the rows in memory: continuing from rows of another kind gives other bits
    model_mark: int = 0  # of the weights, 16 bits
    same_quant_only: bool = False
    budget_bytes: int = DEFAULT_BUDGET_BYTES
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Hit:
    """A saved prefix, read and checked."""

    name: str
    text_bytes: int  # of the prompt that it covers
    payload: Payload
    tools: ToolBlocks
    flags: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file as it was last time; no entry when it cannot be used."""

    signature: Signature
    entry: Entry | None
    has_tools: bool = False


class KvStore:
    """The files of one directory."""

    def __init__(self, settings: StoreSettings, log: Log, clock: Callable[[], float] = time.time) -> None:
        """Make the directory, clear what dead writers left, get within the budget. Raises OSError."""
        self.settings = settings
        self._log, self._clock = log, clock
        self._seen: dict[str, _Seen] = {}
        self._refused: dict[str, Signature] = {}  # their payloads turned out to be useless
        settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._remove_stale()
        self._evict(None, frozenset())

    def entries(self) -> list[Entry]:
        """The usable files as they are now."""
        self._refresh()
        return [seen.entry for seen in self._seen.values() if seen.entry is not None]

    def best(self, prompt: bytes) -> Entry | None:
        """The file `take` would try first, without reading it: is it worth it?"""
        return next(iter(self._candidates(prompt)), None)

    def take(self, prompt: bytes) -> Hit | None:
        """Read the longest saved prefix of the prompt's text, and count or consume it."""
        for entry in self._candidates(prompt):
            started = time.monotonic()
            hit = self._load(entry, prompt)
            if hit is not None:
                self._count(entry)
                self._tell("hit", entry.name, entry.num_tokens, entry.file_bytes, started)
                return hit
        return None

    def save(
        self,
        text: bytes,
        payload: Payload,
        reason: Reason,
        *,
        flags: int = 0,
        tools: ToolBlocks | None = None,
        spared: Set[str] = frozenset(),
    ) -> str | None:
        """Keep the payload under its text -> the file's name; None when it was not written (the log says why).

        Of `tools` only the blocks that occur in the text are kept. A usable file of the same text keeps its payload.
        `spared`: names not to be evicted for it as long as others are there.
        """
        name = hashlib.sha1(text).hexdigest()
        blocks = {call_id: block for call_id, block in (tools or {}).items() if block and block in text}
        if self._touch(name, text, blocks):
            return name
        size = HEAD_BYTES + len(text) + self.settings.layout.payload_bytes(payload.num_tokens)
        total = size + (len(encode_tools(blocks)) if blocks else 0)
        if not policy.fits(total, self.settings.budget_bytes):
            self._log(f"kv cache: skipped {name[:12]}: {total} bytes do not fit the budget")
            return None
        self._evict(self._incoming(name, text, total), spared)
        started = time.monotonic()
        if not self._write(name, text, payload, self._header(payload, reason, flags, bool(blocks)), blocks):
            return None
        self._refused.pop(name, None)
        self._tell(f"stored ({reason.name.lower()})", name, payload.num_tokens, total, started)
        return name

    def tools(self, wanted: Set[str]) -> dict[str, bytes]:
        """The saved blocks of these tool call ids, from all files."""
        self._refresh()
        found: dict[str, bytes] = {}
        for name in [name for name, seen in self._seen.items() if seen.has_tools]:
            if len(found) == len(wanted):
                break
            blocks = self._guarded(name, lambda file: file.tools()) or {}
            found |= {call_id: block for call_id, block in blocks.items() if call_id in wanted}
        return found

    def _candidates(self, prompt: bytes) -> list[Entry]:
        entries, settings = self.entries(), self.settings
        names = prefix_names(prompt, {entry.text_bytes for entry in entries})
        bits = settings.quant_bits if settings.same_quant_only else None
        return policy.lookup_order(entries, names, settings.layout.context_length, bits, settings.limits.min_tokens)

    def _load(self, entry: Entry, prompt: bytes) -> Hit | None:
        hit = self._guarded(entry.name, lambda file: self._read(file, entry, prompt))
        if hit is None:
            self._refuse(entry.name)
        return hit

    def _read(self, file: KvFile, entry: Entry, prompt: bytes) -> Hit:
        text, layout = file.text(), self.settings.layout
        if hashlib.sha1(text).hexdigest() != entry.name or not prompt.startswith(text):
            raise FileFormatError(f"{file.path.name}: the key text is not the one in its name. It is not used.")
        payload = read_payload(file.payload(), layout, file.path.name)
        if payload.num_tokens != file.header.num_tokens:
            file.path.unlink(missing_ok=True)
            count = f"{payload.num_tokens} tokens, its header says {file.header.num_tokens}"
            raise FileFormatError(f"{file.path.name}: holds {count}. It was deleted.")
        return Hit(entry.name, len(text), payload, file.tools(), file.header.flags)

    def _count(self, entry: Entry) -> None:
        path = self._path(entry.name)
        try:
            if policy.after_hit(entry.num_tokens, self.settings.limits) == "consume":
                path.unlink(missing_ok=True)
                self._log(f"kv cache: consumed {entry.name[:12]}")
                return
            with KvFile(path, writable=True) as file:
                file.rewrite_header(file.header.hit(self._now()))
        except (OSError, FileFormatError) as error:
            self._log(f"kv cache: could not count the hit of {entry.name[:12]}: {error}")

    def _touch(self, name: str, text: bytes, blocks: ToolBlocks) -> bool:
        """Whether a file of this text is there already and usable; then it gets the new blocks."""
        self._refresh()
        seen = self._seen.get(name)
        if seen is None or seen.entry is None or not self._is_compatible(seen.entry):
            return False
        try:
            with KvFile(self._path(name), writable=True) as file:
                return file.text() == text and self._add_tools(file, blocks)
        except (OSError, FileFormatError):
            return False

    def _add_tools(self, file: KvFile, blocks: ToolBlocks) -> bool:
        held = file.tools()
        # what follows the payload of a file with flags unknown here is not ours to cut off
        if blocks.items() <= held.items() or file.header.flags & ~KNOWN_FLAGS:
            file.rewrite_header(file.header.used(self._now()))
        else:
            file.rewrite_tools(held | dict(blocks), self._now())
        return True

    def _is_compatible(self, entry: Entry) -> bool:
        settings = self.settings
        is_quant_right = not settings.same_quant_only or entry.quant_bits == settings.quant_bits
        return is_quant_right and entry.context_length <= settings.layout.context_length

    def _header(self, payload: Payload, reason: Reason, flags: int, has_tools: bool) -> Header:
        settings, now = self.settings, self._now()
        return Header(
            quant_bits=settings.quant_bits,
            reason=reason,
            num_tokens=payload.num_tokens,
            context_length=settings.layout.context_length,
            payload_bytes=settings.layout.payload_bytes(payload.num_tokens),
            created=now,
            last_used=now,
            flags=flags | (HAS_TOOLS if has_tools else 0),
            model_id=settings.model_id,
            row_kind=settings.row_kind,
            model_mark=settings.model_mark,
        )

    def _write(self, name: str, text: bytes, payload: Payload, header: Header, blocks: ToolBlocks) -> bool:
        path = self._path(name)
        temporary = path.with_name(f"{path.name}.tmp.{os.getpid()}")
        parts: list[bytes | memoryview] = [header.to_bytes(), TEXT_SIZE.pack(len(text)), text]
        parts += write_payload(payload, self.settings.layout)
        parts += [encode_tools(blocks)] if blocks else []
        try:
            write_file(temporary, parts)
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            self._log(f"kv cache: could not store {name[:12]}: {error}")
            return False
        return True

    def _incoming(self, name: str, text: bytes, size: int) -> Incoming:
        entries = [entry for entry in self.entries() if entry.text_bytes < len(text)]
        names = prefix_names(text, {entry.text_bytes for entry in entries})
        prefixes = {entry.name for entry in entries if names.get(entry.text_bytes) == entry.name}
        return Incoming(size, self.settings.layout.context_length, prefixes)

    def _evict(self, incoming: Incoming | None, spared: Set[str]) -> None:
        budget = self.settings.budget_bytes
        for entry in policy.victims(self.entries(), budget, self._now(), incoming, spared):
            try:
                self._path(entry.name).unlink(missing_ok=True)
                self._log(f"kv cache: evicted {entry.name[:12]}, {entry.num_tokens} tokens, {entry.file_bytes} bytes")
            except OSError as error:
                self._log(f"kv cache: could not evict {entry.name[:12]}: {error}")

    def _refresh(self) -> None:
        """Look at the directory again; only files that changed are opened."""
        now: dict[str, _Seen] = {}
        for name, signature in self._listed():
            seen = self._seen.get(name)
            if self._refused.get(name) == signature:
                now[name] = _Seen(signature, None)
            elif seen is None or seen.signature != signature:
                now[name] = self._look(name, signature)
            else:
                now[name] = seen
        self._seen = now

    def _listed(self) -> list[tuple[str, Signature]]:
        found = []
        try:
            with os.scandir(self.settings.directory) as listing:
                for item in listing:
                    match = FILE_NAME.fullmatch(item.name)
                    if match and (signature := _signature(Path(item.path))):
                        found.append((match[1], signature))
        except OSError as error:
            self._log(f"kv cache: cannot list {self.settings.directory}: {error}")
        return found

    def _look(self, name: str, signature: Signature) -> _Seen:
        entry = self._guarded(name, lambda file: self._entry(name, file))
        return _Seen(signature, None if entry is None else entry[0], entry is not None and entry[1])

    def _entry(self, name: str, file: KvFile) -> tuple[Entry, bool]:
        header, settings = file.header, self.settings
        _refuse_other(file, "model id", header.model_id, settings.model_id)
        if header.row_kind and settings.row_kind:
            _refuse_other(file, "kind of rows", header.row_kind, settings.row_kind)
        if header.model_mark and settings.model_mark:
            _refuse_other(file, "mark of the weights", header.model_mark, settings.model_mark)
        entry = Entry(
            name=name,
            text_bytes=file.text_bytes,
            num_tokens=header.num_tokens,
            context_length=header.context_length,
            quant_bits=header.quant_bits,
            reason=header.reason,
            hits=header.hits,
            last_used=header.last_used,
            file_bytes=file.size_bytes,
        )
        self._warn_of_unusable(entry)
        return entry, bool(header.flags & HAS_TOOLS)

    def _warn_of_unusable(self, entry: Entry) -> None:
        """Files that count towards the budget but that no lookup takes."""
        if not self._is_compatible(entry):
            here = f"context {self.settings.layout.context_length}, {self.settings.quant_bits} bits"
            theirs = f"context {entry.context_length}, {entry.quant_bits} bits"
            self._log(f"kv cache: skipped {entry.name[:12]}: made with {theirs}; here {here}")

    def _guarded(self, name: str, read: Callable[[KvFile], T]) -> T | None:
        """Read from a file that may be damaged, or gone since the directory was listed."""
        try:
            with KvFile(self._path(name)) as file:
                return read(file)
        except FileNotFoundError:
            return None
        except (OSError, FileFormatError) as error:
            self._log(f"kv cache: skipped {error}")
            return None

    def _refuse(self, name: str) -> None:
        """Do not try this file again until it is another one."""
        if signature := _signature(self._path(name)):
            self._refused[name] = signature

    def _remove_stale(self) -> None:
        for path in self.settings.directory.iterdir():
            match = TEMPORARY_NAME.fullmatch(path.name)
            if match and not _is_other_process(int(match[1])):
                path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.settings.directory / f"{name}.kv"

    def _now(self) -> int:
        return int(self._clock())

    def _tell(self, what: str, name: str, num_tokens: int, size: int, started: float) -> None:
        elapsed = 1000 * (time.monotonic() - started)
        self._log(f"kv cache: {what} {name[:12]}, {num_tokens} tokens, {size} bytes, {elapsed:.0f} ms")


def prefix_names(text: bytes, lengths: Iterable[int]) -> dict[int, str]:
    """The names of the text's prefixes of these lengths, all in one pass over it."""
    digest, names, done = hashlib.sha1(), {}, 0
    for length in sorted(length for length in set(lengths) if length <= len(text)):
        digest.update(memoryview(text)[done:length])
        names[length], done = digest.hexdigest(), length
    return names


def write_file(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """A new private file, on the disk when this returns: the payload has no checksum that would tell a lost page."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        offset = 0
        for part in parts:
            offset = write_all(descriptor, part, offset)
        os.fsync(descriptor)
        if os.fstat(descriptor).st_size != offset:
            raise OSError(f"{path.name} was cut short on its way to the disk")
    finally:
        os.close(descriptor)


def _signature(path: Path) -> Signature | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_other_process(pid: int) -> bool:
    """Whether a process other than this one has the id."""
    if pid in (0, os.getpid()):
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _refuse_other(file: KvFile, subject: str, found: int, expected: int) -> None:
    if found != expected:
        raise FileFormatError(f"{file.path.name}: {subject}: found {found}; expected {expected}. It is another's.")
