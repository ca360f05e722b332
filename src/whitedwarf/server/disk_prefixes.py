"""The engine's second level of reuse: states of prompts in the files of kvstore (product.md B.18).

The engine thread looks and reads, a thread of its own writes: an answer waits for no disk. Whoever prepares prompts may
ask from any thread which saved texts one begins with, and for the words of tool calls. Promises: what is handed out was
saved under exactly these token ids; what cannot be read, written, or not soon enough, is one line in the log and costs
only the reuse.

ds4's format has a place for the logits after the last token. Where the engine has none to give, zeros are written:
nothing of ours reads them, and the log says so.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Self

import numpy as np

from whitedwarf.engine.prefix import SaveReason, StoredPrefix
from whitedwarf.errors import FileFormatError
from whitedwarf.kvstore.header import Reason
from whitedwarf.kvstore.payload import Payload, PayloadKind
from whitedwarf.kvstore.policy import Entry
from whitedwarf.kvstore.settings import StoreSettings
from whitedwarf.kvstore.stats import StoreStats
from whitedwarf.kvstore.store import KvStore
from whitedwarf.model.base import Ids, Logits, Snapshot
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.model.saved_states import StateArrays
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.token_words import TokenWords
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server.save_plans import SavePlans

MAX_WAITING = 4  # states that may wait for the disk; each keeps its memory

ToolsIn = Callable[[bytes], Mapping[str, bytes]]  # a key text -> call ids and the words of those calls that occur in it

log = logging.getLogger(__name__)


def no_tools(text: bytes) -> Mapping[str, bytes]:
    """Where nobody remembers how calls were worded."""
    return {}


@dataclass(frozen=True, slots=True)
class _Save:
    """A state on its way to the disk."""

    ids: Ids
    snapshot: Snapshot
    reason: Reason
    logits: Logits | None


class DiskPrefixes:
    """A `PrefixStore`. Close it after the engine: what the engine offered at its end is written before that returns."""

    def __init__(
        self, model: DeepSeek, tokenizer: Tokenizer, settings: StoreSettings, tools: ToolsIn = no_tools
    ) -> None:
        """`tools` is asked on the writer's thread. Raises OSError when the directory cannot be made or read."""
        self._kind = settings.payload_kind
        self._arrays: dict[PayloadKind, StateArrays] = {
            PayloadKind.DS4: model.state_arrays("plain"),
            PayloadKind.PACKED: model.state_arrays("packed"),
        }
        self._text, self._tools = TokenWords(tokenizer).text, tools
        self._plans = SavePlans(
            settings.limits, *map(tokenizer.special_id, (SpecialToken.USER, SpecialToken.ASSISTANT))
        )
        self._store = KvStore(settings, log.info)
        self._saves: queue.Queue[_Save | None] = queue.Queue(MAX_WAITING)
        self._num_failed = 0  # counted by the writer's thread
        self._num_dropped = 0  # counted by the engine's
        self._is_closed = False
        self._thread = threading.Thread(target=self._write_all, name="whitedwarf-kv-writer", daemon=True)
        self._thread.start()

    @property
    def stats(self) -> StoreStats:
        """From any thread: numbers of about now."""
        stats = self._store.stats
        return replace(stats, failed=stats.failed + self._num_failed, dropped=self._num_dropped)

    def find(self, ids: Ids) -> StoredPrefix | None:
        """The longest prefix on disk that is shorter than `ids`; only heads and ids of files are read."""
        self._plans.expect(ids)
        entries = self._store.entries()
        longest = max((entry.num_tokens for entry in entries), default=0)
        if not longest:
            return None
        text = self._text(ids[:longest])
        for entry in self._store.candidates(text, entries):
            self._store.spare(entry)  # before it is looked at: the writer may be about to evict it
            held = self._store.ids(entry)
            if held is not None and len(held) < len(ids) and np.array_equal(held, ids[: len(held)]):
                return StoredPrefix(len(held), partial(self._load, entry, held, text))
        return None

    def spoken(self, text: bytes) -> Iterator[Ids]:
        """From any thread: the tokens of saved prefixes that spell what `text` begins with, longest first.

        Files of ds4 whose key is what the client saw, and not what the tokens say, are left out: with hidden reasoning
        in it the prompt would be another one.
        """
        for entry in self._store.candidates(text):
            ids = self._store.ids(entry)
            if ids is not None and self._spells(ids, text[: entry.text_bytes]):
                yield ids

    def blocks(self, call_ids: Set[str]) -> Mapping[str, bytes]:
        """From any thread: what the model wrote for these tool calls, as far as files know."""
        return self._store.tools(call_ids) if call_ids else {}

    def save(self, ids: Ids, snapshot: Snapshot, reason: SaveReason, logits: Logits | None = None) -> None:
        """Queue the state where the policy wants it; at shutdown wait for room in the queue, otherwise never.

        `logits` (vocab,): after the last of `ids`.
        """
        why = self._plans.reason(ids, reason)
        if why is None:
            return
        if self._is_closed or not self._arrays[self._kind].accepts(snapshot):
            raise ValueError("the store is closed, or the state is not of its model")
        try:
            self._saves.put(_Save(ids, snapshot, why, logits), block=reason is SaveReason.SHUTDOWN)
        except queue.Full:
            self._num_dropped += 1
            log.info("prefix_not_saved", extra={"tokens": len(ids), "reason": reason, "why": "the disk is behind"})

    def close(self) -> None:
        """Write what waits, then end the thread. Again does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._saves.put(None)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _load(self, entry: Entry, ids: Ids, text: bytes) -> Snapshot:
        hit = self._store.load(entry, text)
        if hit is None or not np.array_equal(hit.payload.ids, ids):
            raise FileFormatError(f"{entry.name}.kv: damaged, or changed since it was found. It is not used.")
        return self._arrays[hit.payload.kind].restored(ids, hit.payload.layers)

    def _spells(self, ids: Ids, text: bytes) -> bool:
        try:
            return self._text(ids) == text
        except ValueError:  # tokens that the vocabulary does not have
            return False

    def _write_all(self) -> None:
        """The writer's whole life."""
        while (item := self._saves.get()) is not None:
            facts = {"tokens": len(item.ids), "reason": item.reason.name.lower()}
            try:
                name = self._write(item)
            except Exception:  # a full disk, or memory: the next one may fit
                self._num_failed += 1
                log.warning("saving_prefix_failed", exc_info=True, extra=facts)
                continue
            if name is not None:
                log.info("prefix_saved", extra=facts | {"file": name[:12]} | self._mark(item.logits))

    def _write(self, item: _Save) -> str | None:
        text = self._text(item.ids)
        payload = Payload(item.ids, item.logits, self._arrays[self._kind].of(item.snapshot), self._kind)
        return self._store.save(text, payload, item.reason, tools=self._tools_in(text))

    def _tools_in(self, text: bytes) -> Mapping[str, bytes]:
        try:
            return self._tools(text)
        except Exception:  # somebody else's code; the state is worth its file without them
            log.warning("no_tools_saved", exc_info=True)
            return {}

    def _mark(self, logits: Logits | None) -> dict[str, str]:
        is_made_up = logits is None and self._kind is PayloadKind.DS4
        return {"next_logits": "zeros"} if is_made_up else {}
