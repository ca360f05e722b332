"""The directory of saved prefixes: finds the best one for a prompt, writes new ones, keeps to its budget.

Promises: files are private (0600, in a directory made 0700) and appear whole or not at all, whenever the process dies;
a file that cannot be used is skipped with one line in the log; no failure of the disk fails a request. Any thread may
look and load, one at a time saves; other processes may use the directory too.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import chain

import numpy as np

from whitedwarf.errors import FileFormatError
from whitedwarf.kvstore import dsv4, packed, policy
from whitedwarf.kvstore.directory import Directory, Log
from whitedwarf.kvstore.file import HEAD_BYTES, TEXT_SIZE, KvFile
from whitedwarf.kvstore.header import HAS_TOOLS, KNOWN_FLAGS, Header, Reason
from whitedwarf.kvstore.payload import Ids, Payload, PayloadFormat, PayloadKind
from whitedwarf.kvstore.policy import Entry, Incoming
from whitedwarf.kvstore.room import Room
from whitedwarf.kvstore.settings import StoreSettings
from whitedwarf.kvstore.stats import StoreStats, Tally
from whitedwarf.kvstore.tool_index import ToolIndex
from whitedwarf.kvstore.tool_map import LONGEST_ID_BYTES, ToolBlocks, encode_tools, occurring

FORMATS: dict[PayloadKind, PayloadFormat] = {PayloadKind.DS4: dsv4, PayloadKind.PACKED: packed}


@dataclass(frozen=True, slots=True)
class Hit:
    """A saved prefix, read and checked."""

    name: str
    text: bytes  # what of the prompt it covers
    payload: Payload
    told_tools: ToolBlocks  # as the file has them, true or not
    flags: int

    @property
    def text_bytes(self) -> int:
        """Of the prompt that it covers."""
        return len(self.text)

    @property
    def tools(self) -> ToolBlocks:
        """Those that occur in the text. Looked for here and not while loading, which the engine waits for."""
        return occurring(self.told_tools, self.text)


class KvStore:
    """The files of one directory."""

    def __init__(self, settings: StoreSettings, log: Log, clock: Callable[[], float] = time.time) -> None:
        """Make the directory, clear what dead writers left, get within the budget. Raises OSError."""
        self.settings = settings
        self._log, self._clock = log, clock
        self._tally = Tally()
        self._directory = Directory(settings.directory, log, self._tally, self._entry)
        self._tool_index = ToolIndex(self._directory)
        self._room = Room(self._directory, settings.budget_bytes, log, self._tally)
        self._room.make(self._now())

    @property
    def stats(self) -> StoreStats:
        """From any thread; looks at no file."""
        return self._tally.stats(*self._directory.held, self.settings.budget_bytes)

    def entries(self) -> list[Entry]:
        """The healthy files as they are now, usable or not."""
        return list(self._directory.entries().values())

    def candidates(self, prompt: bytes, among: Sequence[Entry] | None = None) -> list[Entry]:
        """The usable files whose text the prompt begins with, best first; only their heads were read.

        `among`: what `entries` gave just now.
        """
        entries, settings = self.entries() if among is None else among, self.settings
        names = prefix_names(prompt, {entry.text_bytes for entry in entries})
        bits = settings.quant_bits if settings.same_quant_only else None
        return policy.lookup_order(entries, names, settings.layout.context_length, bits, settings.limits.min_tokens)

    def ids(self, entry: Entry) -> Ids | None:
        """The tokens of a file, without the rest of it; None (and a line in the log) when it is damaged."""
        return self._directory.read(entry.name, _ids)

    def spare(self, entry: Entry) -> None:
        """It is needed: from now on it is evicted only after others. That it is still there shows when it is read."""
        self._room.spare(entry.name)

    def load(self, entry: Entry, prompt: bytes) -> Hit | None:
        """Read one candidate, and count the hit; None (and a line in the log) when it cannot be used.

        A file of more tokens than are saved cold is consumed, as by ds4, but not before a longer one that begins with
        its text is there: whoever dies in between has lost nothing.
        """
        self.spare(entry)
        started = time.monotonic()
        hit = self._directory.read(entry.name, lambda file: self._read(file, entry, prompt))
        if hit is None:
            self._directory.refuse(entry.name)
            return None
        self._count(entry)
        self._tally.add(hits=1, read_bytes=entry.file_bytes, read_s=time.monotonic() - started)
        self._tell("hit", entry.name, entry.num_tokens, entry.file_bytes, started)
        return hit

    def take(self, prompt: bytes) -> Hit | None:
        """Load the best candidate that can be."""
        hits = (self.load(entry, prompt) for entry in self.candidates(prompt))
        return next((hit for hit in hits if hit is not None), None)

    def save(
        self,
        text: bytes,
        payload: Payload,
        reason: Reason,
        *,
        flags: int = 0,
        tools: ToolBlocks | None = None,
    ) -> str | None:
        """Keep the payload under its text -> the file's name; None when it was not written (the log says why).

        Of `tools` only the blocks that occur in the text are kept. A usable file of the same text in the same
        tokens keeps its payload: then, or when there is no room, the layers of this one are never asked for.
        """
        name = hashlib.sha1(text).hexdigest()
        blocks = _blocks_in(text, tools or {})
        if self._touch(name, text, payload.ids, blocks):
            return name
        size = FORMATS[payload.kind].payload_bytes(payload, self.settings.layout)
        total = HEAD_BYTES + len(text) + size + (len(encode_tools(blocks)) if blocks else 0)
        if not policy.fits(total, self.settings.budget_bytes):
            self._log(f"kv cache: skipped {name[:12]}: {total} bytes do not fit the budget")
            self._tally.add(failed=1)
            return None
        incoming = self._incoming(name, text, total)
        self._room.make(self._now(), incoming)
        started = time.monotonic()
        header = self._header(payload, size, reason, flags | (HAS_TOOLS if blocks else 0))
        if not self._write(name, text, payload, header, blocks):
            return None
        self._room.retire(incoming.prefixes)
        self._directory.entries()  # `stats` tell of the new one
        self._tally.stored(reason, total, time.monotonic() - started)
        self._tell(f"stored ({reason.name.lower()})", name, payload.num_tokens, total, started)
        return name

    def tools(self, wanted: Set[str]) -> dict[str, bytes]:
        """The saved blocks of these tool call ids, from all files."""
        return self._tool_index.blocks([entry.name for entry in self.entries() if entry.has_tools], wanted)

    def _read(self, file: KvFile, entry: Entry, prompt: bytes) -> Hit:
        text, layout = file.text(), self.settings.layout
        if hashlib.sha1(text).hexdigest() != entry.name or not prompt.startswith(text):
            raise FileFormatError(f"{file.path.name}: the key text is not the one in its name. It is not used.")
        payload = FORMATS[file.header.payload_kind].read_payload(file.payload(), layout, file.path.name)
        if payload.num_tokens != file.header.num_tokens:
            file.path.unlink(missing_ok=True)
            count = f"{payload.num_tokens} tokens, its header says {file.header.num_tokens}"
            raise FileFormatError(f"{file.path.name}: holds {count}. It was deleted.")
        return Hit(entry.name, text, payload, file.tools(), file.header.flags)

    def _count(self, entry: Entry) -> None:
        try:
            if policy.after_hit(entry.num_tokens, self.settings.limits) == "consume":
                self._room.use_up(entry.name)
            with KvFile(self._directory.path_of(entry.name), writable=True) as file:
                file.count_hit(self._now())
        except (OSError, FileFormatError) as error:
            self._log(f"kv cache: could not count the hit of {entry.name[:12]}: {error}")

    def _touch(self, name: str, text: bytes, ids: Ids, blocks: ToolBlocks) -> bool:
        """Whether a usable file of this text in these tokens is there already; then it gets the new blocks."""
        entry = self._directory.entries().get(name)
        if entry is None or not entry.is_usable or entry.num_tokens != len(ids):
            return False
        try:
            with KvFile(self._directory.path_of(name), writable=True) as file:
                is_same = file.text() == text and np.array_equal(_ids(file), ids)
                return is_same and self._add_tools(file, text, blocks)
        except (OSError, FileFormatError):
            return False

    def _add_tools(self, file: KvFile, text: bytes, blocks: ToolBlocks) -> bool:
        held = occurring(file.tools(), text)
        # what follows the payload of a file with flags unknown here is not ours to cut off
        if blocks.items() <= held.items() or file.header.flags & ~KNOWN_FLAGS:
            file.mark_used(self._now())
        else:
            file.rewrite_tools(held | dict(blocks), self._now())
        return True

    def _header(self, payload: Payload, payload_bytes: int, reason: Reason, flags: int) -> Header:
        settings, now = self.settings, self._now()
        return Header(
            quant_bits=settings.quant_bits,
            reason=reason,
            num_tokens=payload.num_tokens,
            context_length=settings.layout.context_length,
            payload_bytes=payload_bytes,
            created=now,
            last_used=now,
            flags=flags,
            model_id=settings.model_id,
            payload_kind=payload.kind,
            row_kind=settings.layout.row_kind,
            model_mark=settings.model_mark,
        )

    def _write(self, name: str, text: bytes, payload: Payload, header: Header, blocks: ToolBlocks) -> bool:
        head = header.to_bytes(), TEXT_SIZE.pack(len(text)), text
        body = FORMATS[payload.kind].write_payload(payload, self.settings.layout)
        trailer = [encode_tools(blocks)] if blocks else []
        try:
            self._directory.write(name, chain(head, body, trailer))
        except OSError as error:
            self._log(f"kv cache: could not store {name[:12]}: {error}")
            self._tally.add(failed=1)
            return False
        return True

    def _incoming(self, name: str, text: bytes, size: int) -> Incoming:
        entries = [entry for entry in self.entries() if entry.text_bytes < len(text)]
        names = prefix_names(text, {entry.text_bytes for entry in entries})
        prefixes = {entry.name for entry in entries if names.get(entry.text_bytes) == entry.name}
        return Incoming(size, self.settings.layout.context_length, prefixes)

    def _entry(self, file: KvFile) -> Entry:
        header, name = file.header, file.path.stem
        problem = self.settings.problem(header)
        if problem is not None:
            self._directory.skip(f"{name}.kv: {problem}")
        return Entry(
            name=name,
            text_bytes=file.text_bytes,
            num_tokens=header.num_tokens,
            context_length=header.context_length,
            quant_bits=header.quant_bits,
            reason=header.reason,
            hits=header.hits,
            last_used=header.last_used,
            file_bytes=file.size_bytes,
            has_tools=bool(header.flags & HAS_TOOLS),
            is_usable=problem is None,
        )

    def _now(self) -> int:
        return int(self._clock())

    def _tell(self, what: str, name: str, num_tokens: int, size: int, started: float) -> None:
        elapsed = 1000 * (time.monotonic() - started)
        self._log(f"kv cache: {what} {name[:12]}, {num_tokens} tokens, {size} bytes, {elapsed:.0f} ms")


def _ids(file: KvFile) -> Ids:
    payload = FORMATS[file.header.payload_kind]
    return payload.read_ids(file.payload_start(payload.HEADER_BYTES + 4 * file.header.num_tokens), file.path.name)


def prefix_names(text: bytes, lengths: Iterable[int]) -> dict[int, str]:
    """The names of the text's prefixes of these lengths, all in one pass over it."""
    digest, names, done = hashlib.sha1(), {}, 0
    for length in sorted(length for length in set(lengths) if length <= len(text)):
        digest.update(memoryview(text)[done:length])
        names[length], done = digest.hexdigest(), length
    return names


def _blocks_in(text: bytes, tools: ToolBlocks) -> dict[str, bytes]:
    """The blocks that occur in the text (all calls of a message share one), under ids that a reader takes."""
    usable = {call_id: block for call_id, block in tools.items() if 1 <= len(call_id.encode()) <= LONGEST_ID_BYTES}
    return occurring(usable, text)
