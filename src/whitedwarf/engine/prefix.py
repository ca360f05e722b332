"""Prefixes that were computed once: checkpoints in memory, states that nobody continues yet, and a store behind them.

Used by the engine thread alone, except `stats`. It promises that what it hands out is exactly the first tokens of the
prompt run from zero and at least one token short of it, that checkpoints and idle states together never exceed the
budget, and that whatever a running request came from outlives the pressure of its own checkpoints. It never fails a
request: without memory or with a broken store there is only less to reuse.

What goes first: checkpoints inside a run, the stalest first, then those nobody named, then the densest; only then ends
and partings. The ids of the tree itself (4 bytes a token) are not counted.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from whitedwarf.engine.ledger import Ledger, total_bytes
from whitedwarf.engine.prefix_tree import Checkpoint, Node, PrefixTree
from whitedwarf.engine.request import MissReason, Reuse
from whitedwarf.engine.stops import MIN_PARTING
from whitedwarf.model.base import Ids, Model, Snapshot, State

log = logging.getLogger(__name__)


class SaveReason(StrEnum):
    """The reasons of product.md B.18."""

    COLD = "cold"  # while a prompt is read of which nothing was reused
    CONTINUED = "continued"  # while another one is read
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

    def save(self, ids: Ids, snapshot: Snapshot, reason: SaveReason) -> None:
        """An offer: the store's policy decides whether these ids are worth a place."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A state with the first `num_tokens` of a prompt in it; up to `num_common` it was seen before."""

    state: State
    num_tokens: int
    num_common: int
    reuse: Reuse = Reuse.NONE
    miss_reason: MissReason | None = None
    source: Checkpoint | None = None  # not dropped from memory until given back


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
        self._budget_bytes = budget_bytes
        self._max_live = max_live
        self._store = store
        self._tree = PrefixTree()
        self._ledger = Ledger()
        self._clock = 0  # requests begun
        self._reach = 0  # the longest step back any checkpoint allows
        self._live: list[Node] = []  # nodes whose checkpoint has a live state, the stalest first
        self._num_evicted = 0
        self._reused_tokens = 0
        self._requests: Counter[str] = Counter()
        self._misses: Counter[str] = Counter()

    @property
    def is_on(self) -> bool:
        return self._budget_bytes > 0 or self._store is not None

    @property
    def stats(self) -> PrefixStats:
        """From any thread: numbers of about now."""
        return PrefixStats(
            self._budget_bytes,
            self._ledger.total_bytes,
            len(self._tree),
            len(self._live),
            self._num_evicted,
            self._reused_tokens,
            dict(self._requests),
            dict(self._misses),
        )

    def take(self, prompt: Ids) -> Taken:
        """A state that holds as much of `prompt` as is remembered, at most all but its last token."""
        self._clock += 1
        if not self.is_on:
            return self._counted(Taken(self._model.new_state(), 0, 0, miss_reason=MissReason.OFF))
        node, kept, common = self._find(prompt)
        return self._counted(self._from_store(prompt, kept, common) or self._from_memory(node, kept, common))

    def _counted(self, taken: Taken) -> Taken:
        self._reused_tokens += taken.num_tokens
        self._requests[taken.reuse] += 1
        if taken.miss_reason is not None:
            self._misses[taken.miss_reason] += 1
        return taken

    def remember(self, ids: Ids, state: State, reason: SaveReason | None, *, is_named: bool) -> None:
        """Take a checkpoint of `state`, which holds `ids`; offer it to the store for `reason`."""
        if not self.is_on or self._is_remembered(ids, state, is_named):
            return
        try:
            snapshot = state.snapshot()
        except Exception:  # the model's own code: most likely memory ran out, and the request can do without
            log.warning("no_checkpoint_taken", exc_info=True, extra={"tokens": len(ids)})
            return
        if reason is not None:
            self._offer(ids, snapshot, reason)
        self._add(ids, snapshot, is_named)

    def give_back(self, ids: Ids, state: State, source: Checkpoint | None) -> None:
        """A request has ended and left `state` with `ids`: whoever extends them may have it."""
        if self.is_on and len(ids):
            self.remember(ids, state, None, is_named=True)
            node = self._tree.at(ids)
            if node is not None and node.checkpoint is not None and node.checkpoint.live is None:
                self._keep_live(node, node.checkpoint, state)
        self.release(source)

    def release(self, source: Checkpoint | None) -> None:
        """The request that came from `source` has ended."""
        if source is not None:
            source.num_users -= 1

    def close(self) -> None:
        """Offer every end to the store, forget everything."""
        for node in list(self._tree):
            if node.checkpoint is not None and not node.children:
                self._offer(node.ids, node.checkpoint.snapshot, SaveReason.SHUTDOWN)
        self._tree, self._ledger, self._live = PrefixTree(), Ledger(), []

    def _find(self, prompt: Ids) -> tuple[Node | None, int, int]:
        """The best checkpoint, the tokens of `prompt` it gives, and how many (short of the last) were seen before."""
        node, common = self._tree.descend(prompt)
        common = min(common, len(prompt) - 1)
        for ancestor in (node, *node.ancestors()):
            position = min(ancestor.depth, common)
            behind = [n for n in self._tree.nearby(ancestor, position + self._reach) if _reaches(n, position)]
            if behind and position:
                return min(behind, key=_handiness), position, common
        return None, 0, common

    def _from_memory(self, node: Node | None, kept: int, common: int) -> Taken:
        miss_reason = self._miss_reason(kept, common)
        if node is None or node.checkpoint is None:
            return Taken(self._model.new_state(), 0, common, miss_reason=miss_reason)
        checkpoint = node.checkpoint
        checkpoint.last_used = self._clock
        state, reuse = checkpoint.live, Reuse.LIVE
        if state is not None and node.depth - kept <= state.rollback_room:
            self._drop_live(node)
        else:
            state, reuse = self._model.new_state(), Reuse.MEMORY
            state.restore(checkpoint.snapshot)
        if state.position > kept:
            state.rollback(state.position - kept)
        checkpoint.num_users += 1
        return Taken(state, kept, common, reuse, miss_reason, checkpoint)

    def _from_store(self, prompt: Ids, kept: int, common: int) -> Taken | None:
        """What the store has, when it is more than the `kept` tokens in memory."""
        if self._store is None:
            return None
        try:
            stored = self._store.find(prompt)
            if stored is None or not kept < stored.num_tokens < len(prompt):
                return None
            snapshot, state = stored.load(), self._model.new_state()
            state.restore(snapshot)
        except Exception:  # the store's own code, and files that anything may have happened to
            log.warning("stored_prefix_failed", exc_info=True)
            return None
        self._add(prompt[: stored.num_tokens], snapshot, is_named=True)
        return Taken(state, stored.num_tokens, max(common, stored.num_tokens), Reuse.DISK)

    def _miss_reason(self, kept: int, common: int) -> MissReason | None:
        if common - kept >= MIN_PARTING:
            return MissReason.NO_CHECKPOINT
        if kept:
            return None
        return MissReason.UNKNOWN_PREFIX if len(self._tree) else MissReason.EMPTY

    def _is_remembered(self, ids: Ids, state: State, is_named: bool) -> bool:
        """There is a checkpoint already, and it can step back as far as one of `state` could."""
        node = self._tree.at(ids)
        if node is None or node.checkpoint is None:
            return False
        node.checkpoint.last_used = self._clock
        node.checkpoint.is_named |= is_named
        return node.checkpoint.snapshot.rollback_room >= state.rollback_room

    def _add(self, ids: Ids, snapshot: Snapshot, is_named: bool) -> None:
        if total_bytes(snapshot) > self._budget_bytes:
            return
        self._reach = max(self._reach, snapshot.rollback_room)
        node = self._tree.at(ids)
        if node is not None and node.checkpoint is not None:
            self._ledger.enter(snapshot)
            self._ledger.leave(node.checkpoint.snapshot)
            node.checkpoint.snapshot = snapshot
            self._make_room(node)
            return
        node = self._tree.insert(ids, Checkpoint(snapshot, is_named, self._clock))
        self._ledger.enter(snapshot)
        self._share_buffers(node, snapshot)
        self._make_room(node)

    def _share_buffers(self, node: Node, snapshot: Snapshot) -> None:
        """Earlier checkpoints of the run let go of the buffers that the sequence has outgrown."""
        for earlier in node.ancestors():
            if len(earlier.children) > 1:
                return
            if earlier.checkpoint is None:
                continue
            old = earlier.checkpoint.snapshot
            if _shares(earlier, snapshot):
                return
            earlier.checkpoint.snapshot = old.rebased(snapshot)
            self._ledger.enter(earlier.checkpoint.snapshot)
            self._ledger.leave(old)

    def _keep_live(self, node: Node, checkpoint: Checkpoint, state: State) -> None:
        checkpoint.live = state
        self._ledger.enter(state)
        self._live.append(node)
        while len(self._live) > self._max_live:
            self._drop_live(self._live[0])
        self._make_room(node)

    def _drop_live(self, node: Node) -> None:
        assert node.checkpoint is not None
        assert node.checkpoint.live is not None
        self._ledger.leave(node.checkpoint.live)
        node.checkpoint.live = None
        self._live.remove(node)

    def _make_room(self, newest: Node) -> None:
        """Drop what is cheapest to lose until the budget holds; `newest` only when nothing else may go.

        Should what is in use have grown over the budget by itself, it goes too: who uses it has a copy.
        """
        while self._ledger.total_bytes > self._budget_bytes:
            victims = [node for node in self._tree if node is not newest and not _is_used(node)]
            if not victims and self._live:
                self._drop_live(self._live[0])
                continue
            last_resort = [newest] if newest in self._tree else list(self._tree)
            self._evict(min(victims or last_resort, key=_worth))

    def _evict(self, node: Node) -> None:
        checkpoint = node.checkpoint
        assert checkpoint is not None, "only checkpoints are evicted"
        if not node.is_inside_run:
            self._offer(node.ids, checkpoint.snapshot, SaveReason.EVICT)
        if checkpoint.live is not None:
            self._drop_live(node)
        is_last_holder = not any(_shares(after, checkpoint.snapshot) for after in self._tree.followers(node))
        earlier = list(node.ancestors())
        self._ledger.leave(checkpoint.snapshot)
        self._tree.remove(node)
        self._num_evicted += 1
        if is_last_holder:
            self._pack([before for before in earlier if _shares(before, checkpoint.snapshot)])

    def _pack(self, nodes: Sequence[Node]) -> None:
        """The long buffers are needed no more: `nodes` of one run, the last first, hold only the beginning of them."""
        longest: Snapshot | None = None
        for node in nodes:
            assert node.checkpoint is not None
            old = node.checkpoint.snapshot
            longest = old.packed() if longest is None else longest
            node.checkpoint.snapshot = old.rebased(longest)
            self._ledger.enter(node.checkpoint.snapshot)
            self._ledger.leave(old)

    def _offer(self, ids: Ids, snapshot: Snapshot, reason: SaveReason) -> None:
        if self._store is None:
            return
        try:
            self._store.save(ids, snapshot, reason)
        except Exception:  # the store's own code, a full disk
            log.warning("saving_prefix_failed", exc_info=True, extra={"tokens": len(ids), "reason": reason})


def _reaches(node: Node, position: int) -> bool:
    """A state from this checkpoint can step back to `position`."""
    return node.checkpoint is not None and node.depth - position <= node.checkpoint.snapshot.rollback_room


def _shares(node: Node, snapshot: Snapshot) -> bool:
    """The checkpoint lies in the buffers of `snapshot`. Only checkpoints of one way from the root ever share any."""
    buffers = snapshot.shared_bytes().keys()
    return node.checkpoint is not None and buffers == node.checkpoint.snapshot.shared_bytes().keys()


def _handiness(node: Node) -> tuple[bool, int]:
    """Least is best: a live state before a copy, then the shortest step back."""
    return node.checkpoint is None or node.checkpoint.live is None, node.depth


def _is_used(node: Node) -> bool:
    return node.checkpoint is not None and node.checkpoint.num_users > 0


def _worth(node: Node) -> tuple[bool, int, bool, int]:
    """Least goes first."""
    checkpoint = node.checkpoint
    assert checkpoint is not None
    if not node.is_inside_run:
        return True, checkpoint.last_used, checkpoint.is_named, 0
    return False, checkpoint.last_used, checkpoint.is_named, node.gap
