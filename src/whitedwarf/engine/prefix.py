"""Prefixes that were computed once: checkpoints in memory, states that nobody continues yet, and a store behind them.

Used by the engine thread alone, except `stats`. It promises that what it hands out is exactly the first tokens of the
prompt run from zero and at least one token short of it, and never to fail a request: without memory or with a broken
store there is only less to reuse.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from whitedwarf.engine.checkpoints import Checkpoints, Found
from whitedwarf.engine.prefix_tree import Checkpoint
from whitedwarf.engine.request import MissReason, Reuse
from whitedwarf.engine.stops import MIN_PARTING
from whitedwarf.model.base import Ids, Logits, Model, Snapshot, State

log = logging.getLogger(__name__)


class SaveReason(StrEnum):
    """The reasons of product.md B.18."""

    COLD = "cold"  # while a prompt is read of which next to nothing was reused
    CONTINUED = "continued"  # while another one is read, or a long answer is written
    EVICT = "evict"  # an end or a parting is about to leave memory
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class StoredPrefix:
    """`load` gives the snapshot after the first `num_tokens` of the prompt; it may raise anything."""

    num_tokens: int
    load: Callable[[], Snapshot]


class PrefixStore(Protocol):
    """A second level below memory, called on the engine thread."""

    def find(self, ids: Ids) -> StoredPrefix | None:
        """The longest stored proper prefix of `ids`."""

    def save(self, ids: Ids, snapshot: Snapshot, reason: SaveReason, logits: Logits | None) -> None:
        """An offer: the store's policy decides whether these ids are worth a place.

        `logits` (vocab,) come after the last of `ids`; None where nobody knows them.
        """


@dataclass(frozen=True, slots=True)
class Taken:
    """A state with the first `num_tokens` of a prompt in it; up to `num_common` it was seen before.

    `seen_next`: what came after them then, as far as that is known.
    """

    state: State
    num_tokens: int
    num_common: int
    reuse: Reuse = Reuse.NONE
    miss_reason: MissReason | None = None
    source: Checkpoint | None = None  # not dropped from memory until given back
    seen_next: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PrefixStats:
    """Counters since the start, and what is held now."""

    budget_bytes: int = 0
    held_bytes: int = 0
    num_checkpoints: int = 0
    num_live: int = 0
    num_evicted: int = 0
    reused_tokens: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)  # by Reuse
    misses: Mapping[str, int] = field(default_factory=dict)  # by MissReason


class Prefixes:
    """`budget_bytes` 0 keeps nothing in memory; `max_live` bounds the states kept to be continued without a copy."""

    def __init__(self, model: Model, budget_bytes: int, max_live: int, store: PrefixStore | None = None) -> None:
        self._model = model
        self._store = store
        self._memory = self._empty_memory(budget_bytes, max_live)
        self._reused_tokens = 0
        self._requests: Counter[str] = Counter()
        self._misses: Counter[str] = Counter()

    @property
    def is_on(self) -> bool:
        return self._memory.budget_bytes > 0 or self._store is not None

    @property
    def has_memory(self) -> bool:
        return self._memory.budget_bytes > 0

    @property
    def wants_logits(self) -> bool:
        """Somebody has a use for the logits after what is remembered."""
        return self._store is not None

    @property
    def stats(self) -> PrefixStats:
        """From any thread: numbers of about now."""
        return PrefixStats(
            self._memory.budget_bytes,
            self._memory.held_bytes,
            len(self._memory),
            self._memory.num_live,
            self._memory.num_evicted,
            self._reused_tokens,
            dict(self._requests),
            dict(self._misses),
        )

    def take(self, prompt: Ids) -> Taken:
        """A state that holds as much of `prompt` as is remembered, at most all but its last token."""
        self._memory.begin_request()
        if not self.is_on:
            return self._counted(Taken(self._model.new_state(), 0, 0, miss_reason=MissReason.OFF))
        found = self._memory.find(prompt)
        return self._counted(self._from_store(prompt, found) or self._from_memory(found))

    def _counted(self, taken: Taken) -> Taken:
        self._reused_tokens += taken.num_tokens
        self._requests[taken.reuse] += 1
        if taken.miss_reason is not None:
            self._misses[taken.miss_reason] += 1
        return taken

    def remember(
        self, ids: Ids, state: State, reason: SaveReason | None, *, is_named: bool, logits: Logits | None = None
    ) -> None:
        """Take a checkpoint of `state`, which holds `ids`; offer it to the store for `reason`.

        `logits` (vocab,), where known, may lie in a larger array.
        """
        logits = logits.copy() if self.wants_logits and logits is not None else None
        if not self.is_on or self._memory.has(ids, state, logits, is_named=is_named):
            return
        try:
            snapshot = state.snapshot()
        except Exception:  # the model's own code: most likely memory ran out, and the request can do without
            log.warning("no_checkpoint_taken", exc_info=True, extra={"tokens": len(ids)})
            return
        if reason is not None:
            self._offer(ids, snapshot, reason, logits)
        self._memory.add(ids, snapshot, logits, is_named=is_named)

    def give_back(self, ids: Ids, state: State, source: Checkpoint | None, logits: Logits | None = None) -> None:
        """A request has ended and left `state` with `ids`: whoever extends them may have it."""
        if self.is_on and len(ids):
            self.remember(ids, state, None, is_named=True, logits=logits)
            self._memory.keep_live(ids, state)
        self.release(source)

    def release(self, source: Checkpoint | None) -> None:
        """The request that came from `source` has ended."""
        if source is not None:
            source.num_users -= 1

    def close(self) -> None:
        """Offer every end to the store, forget everything."""
        for ids, checkpoint in self._memory.ends():
            self._offer(ids, checkpoint.snapshot, SaveReason.SHUTDOWN, checkpoint.logits)
        self._memory = self._empty_memory(self._memory.budget_bytes, 0)

    def _empty_memory(self, budget_bytes: int, max_live: int) -> Checkpoints:
        return Checkpoints(budget_bytes, max_live, self._offer_evicted)

    def _offer_evicted(self, ids: Ids, checkpoint: Checkpoint) -> None:
        self._offer(ids, checkpoint.snapshot, SaveReason.EVICT, checkpoint.logits)

    def _from_memory(self, found: Found) -> Taken:
        node, kept, common, seen_next = found.node, found.num_tokens, found.num_common, found.seen_next
        miss_reason = self._miss_reason(kept, common)
        if node is None or node.checkpoint is None:
            return Taken(self._model.new_state(), 0, common, miss_reason=miss_reason, seen_next=seen_next)
        checkpoint = node.checkpoint
        state, reuse = self._memory.use(node, kept), Reuse.LIVE
        if state is None:
            state, reuse = self._model.new_state(), Reuse.MEMORY
            state.restore(checkpoint.snapshot)
        if state.position > kept:
            state.rollback(state.position - kept)
        checkpoint.num_users += 1
        return Taken(state, kept, common, reuse, miss_reason, checkpoint, seen_next)

    def _from_store(self, prompt: Ids, found: Found) -> Taken | None:
        """What the store has, when it is more than what was found in memory."""
        kept = found.num_tokens
        if self._store is None or (kept and len(prompt) - kept <= MIN_PARTING):
            return None
        try:
            stored = self._store.find(prompt)
            if stored is None or not kept < stored.num_tokens < len(prompt):
                return None
            if kept and stored.num_tokens - kept < MIN_PARTING:
                return None  # computing so few tokens is quicker than reading a file
            snapshot, state = stored.load(), self._model.new_state()
            state.restore(snapshot)
        except Exception:  # the store's own code, and files that anything may have happened to
            log.warning("stored_prefix_failed", exc_info=True)
            return None
        source = self._memory.add(prompt[: stored.num_tokens], snapshot, None, is_named=True)
        if source is not None:
            source.num_users += 1
        is_longer = stored.num_tokens > found.num_common
        common, seen_next = (stored.num_tokens, ()) if is_longer else (found.num_common, found.seen_next)
        return Taken(state, stored.num_tokens, common, Reuse.DISK, source=source, seen_next=seen_next)

    def _miss_reason(self, kept: int, common: int) -> MissReason | None:
        if common - kept >= MIN_PARTING:
            return MissReason.NO_CHECKPOINT
        if kept:
            return None
        return MissReason.UNKNOWN_PREFIX if len(self._memory) else MissReason.EMPTY

    def _offer(self, ids: Ids, snapshot: Snapshot, reason: SaveReason, logits: Logits | None) -> None:
        if self._store is None:
            return
        try:
            self._store.save(ids, snapshot, reason, logits)
        except Exception:  # the store's own code, a full disk
            log.warning("saving_prefix_failed", exc_info=True, extra={"tokens": len(ids), "reason": reason})
