"""Checkpoints in memory, and states that nobody continues yet, within a budget of bytes.

It promises that both together never exceed the budget, and that a checkpoint in use outlives the pressure of others.
What goes first: checkpoints inside a run, the stalest first, then those nobody named, then the densest; only then ends
and partings. The ids of the tree itself (4 bytes a token) are not counted. It knows no requests and no store.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from whitedwarf.engine.ledger import Ledger, total_bytes
from whitedwarf.engine.prefix_tree import Checkpoint, Node, PrefixTree
from whitedwarf.model.base import Ids, Logits, Snapshot, State

NUM_SEEN_NEXT = 8


@dataclass(frozen=True, slots=True)
class Found:
    """Of a prompt: the best checkpoint, if any, and the tokens it gives (short of the last).

    Up to `num_common` it was seen before, and then came `seen_next`.
    """

    node: Node | None
    num_tokens: int
    num_common: int
    seen_next: tuple[int, ...]


class Checkpoints:
    """`max_live` bounds the states; `on_evict` hears of every end or parting that is about to go."""

    def __init__(self, budget_bytes: int, max_live: int, on_evict: Callable[[Ids, Checkpoint], None]) -> None:
        self.budget_bytes = budget_bytes
        self.num_evicted = 0
        self._max_live = max_live
        self._on_evict = on_evict
        self._tree = PrefixTree()
        self._ledger = Ledger()
        self._clock = 0  # requests begun
        self._reach = 0  # the longest step back any checkpoint allows
        self._live: list[Node] = []  # nodes whose checkpoint has a live state, the stalest first

    def __len__(self) -> int:
        return len(self._tree)

    @property
    def held_bytes(self) -> int:
        return self._ledger.total_bytes

    @property
    def num_live(self) -> int:
        return len(self._live)

    def ends(self) -> Iterator[tuple[Ids, Checkpoint]]:
        """The last checkpoint of every run."""
        return ((node.ids, _checkpoint(node)) for node in self._tree if not node.children)

    def begin_request(self) -> None:
        """What is used from now on is fresher than all before."""
        self._clock += 1

    def use(self, node: Node, position: int) -> State | None:
        """Mark the checkpoint as used -> its live state if that can go back to `position`; then it is held no more."""
        checkpoint = _checkpoint(node)
        checkpoint.last_used = self._clock
        state = checkpoint.live
        if state is None or node.depth - position > state.rollback_room:
            return None
        self._drop_live(node)
        return state

    def has(self, ids: Ids, state: State, logits: Logits | None, *, is_named: bool) -> bool:
        """There is a checkpoint already, and it can step back as far as one of `state` could.

        It is marked as used, and given the `logits` where it has none.
        """
        node = self._tree.at(ids)
        if node is None or node.checkpoint is None:
            return False
        checkpoint = node.checkpoint
        checkpoint.last_used = self._clock
        checkpoint.is_named |= is_named
        if checkpoint.snapshot.rollback_room < state.rollback_room:
            return False
        if checkpoint.logits is None and logits is not None:
            self._replace(node, checkpoint.snapshot, logits)
            self._make_room(node)
        return True

    def find(self, prompt: Ids) -> Found:
        """What there is of `prompt`."""
        node, common = self._tree.descend(prompt)
        seen_next = self._tree.after(node, common, NUM_SEEN_NEXT)
        wanted = min(common, len(prompt) - 1)
        for ancestor in (node, *node.ancestors()):
            position = min(ancestor.depth, wanted)
            behind = [n for n in self._tree.nearby(ancestor, position + self._reach) if _reaches(n, position)]
            if behind and position:
                return Found(min(behind, key=_handiness), position, common, seen_next)
        return Found(None, 0, common, seen_next)

    def add(self, ids: Ids, snapshot: Snapshot, logits: Logits | None, *, is_named: bool) -> Checkpoint | None:
        """Hold `snapshot` of `ids` if it fits -> its checkpoint, a new one or the one that was there."""
        checkpoint = Checkpoint(snapshot, is_named, self._clock, logits=logits)
        if total_bytes(checkpoint) > self.budget_bytes:
            return None
        self._reach = max(self._reach, snapshot.rollback_room)
        node = self._tree.at(ids)
        if node is not None and node.checkpoint is not None:
            self._replace(node, snapshot, logits)
            self._make_room(node)
            return node.checkpoint
        node = self._tree.insert(ids, checkpoint)
        self._ledger.enter(checkpoint)
        self._share_buffers(node, snapshot)
        self._make_room(node)
        return node.checkpoint

    def _share_buffers(self, node: Node, snapshot: Snapshot) -> None:
        """Earlier checkpoints of the run let go of the buffers that the sequence has outgrown."""
        for earlier in node.ancestors():
            if len(earlier.children) > 1:
                return
            if earlier.checkpoint is None:
                continue
            if _shares(earlier, snapshot):
                return
            self._replace(earlier, _snapshot(earlier).rebased(snapshot))

    def _replace(self, node: Node, snapshot: Snapshot, logits: Logits | None = None) -> None:
        """Another snapshot of the same tokens; `logits` None: those that are there stay."""
        checkpoint = _checkpoint(node)
        self._ledger.leave(checkpoint)
        checkpoint.snapshot = snapshot
        checkpoint.logits = checkpoint.logits if logits is None else logits
        self._ledger.enter(checkpoint)

    def keep_live(self, ids: Ids, state: State) -> None:
        """Hold `state` itself where it ended, if there is a checkpoint and no other state yet."""
        node = self._tree.at(ids)
        if node is None or node.checkpoint is None or node.checkpoint.live is not None:
            return
        node.checkpoint.live = state
        self._ledger.enter(state)
        self._live.append(node)
        while len(self._live) > self._max_live:
            self._drop_live(self._live[0])
        self._make_room(node)

    def _drop_live(self, node: Node) -> None:
        checkpoint = _checkpoint(node)
        assert checkpoint.live is not None
        self._ledger.leave(checkpoint.live)
        checkpoint.live = None
        self._live.remove(node)

    def _make_room(self, newest: Node) -> None:
        """Drop what is cheapest to lose until the budget holds; `newest` only when nothing else may go.

        Should what is in use have grown over the budget by itself, it goes too: who uses it has a copy.
        """
        while self._ledger.total_bytes > self.budget_bytes:
            victims = [node for node in self._tree if node is not newest and not _is_used(node)]
            if not victims and self._live:
                self._drop_live(self._live[0])
                continue
            last_resort = [newest] if newest in self._tree else list(self._tree)
            self._evict(min(victims or last_resort, key=_worth))

    def _evict(self, node: Node) -> None:
        checkpoint = _checkpoint(node)
        if not node.is_inside_run:
            self._on_evict(node.ids, checkpoint)
        if checkpoint.live is not None:
            self._drop_live(node)
        earlier = list(node.ancestors())
        self._ledger.leave(checkpoint)
        self._tree.remove(node)
        self.num_evicted += 1
        holders = [before for before in earlier if _shares(before, checkpoint.snapshot)]
        if holders and not any(_shares(after, checkpoint.snapshot) for after in self._tree.followers(holders[0])):
            self._pack(holders)

    def _pack(self, holders: Sequence[Node]) -> None:
        """`holders`, the last of a run first, are alone with buffers longer than they need: give them shorter ones."""
        try:
            packed = _snapshot(holders[0]).packed()
        except MemoryError:
            return  # the long ones do as well
        for node in holders:
            self._replace(node, _snapshot(node).rebased(packed))


def _reaches(node: Node, position: int) -> bool:
    """A state from this checkpoint can step back to `position`."""
    return node.checkpoint is not None and node.depth - position <= node.checkpoint.snapshot.rollback_room


def _checkpoint(node: Node) -> Checkpoint:
    assert node.checkpoint is not None, "this node is no checkpoint"
    return node.checkpoint


def _snapshot(node: Node) -> Snapshot:
    return _checkpoint(node).snapshot


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
    checkpoint = _checkpoint(node)
    if not node.is_inside_run:
        return True, checkpoint.last_used, checkpoint.is_named, 0
    return False, checkpoint.last_used, checkpoint.is_named, node.gap
