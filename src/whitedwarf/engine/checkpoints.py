"""Checkpoints in memory, and states that nobody continues yet, within a budget of bytes.

It promises that both together never exceed the budget, and that a checkpoint in use outlives the pressure of others.
What goes first: checkpoints inside a run, the stalest first, then those nobody named, then the densest; only then ends
and partings. The ids of the tree itself (4 bytes a token) are not counted. It knows no requests and no store.
"""

from collections.abc import Callable, Iterator, Sequence

from whitedwarf.engine.ledger import Ledger, total_bytes
from whitedwarf.engine.prefix_tree import Checkpoint, Node, PrefixTree
from whitedwarf.model.base import Ids, Snapshot, State


class Checkpoints:
    """`max_live` bounds the states; `on_evict` hears of every end or parting that is about to go."""

    def __init__(self, budget_bytes: int, max_live: int, on_evict: Callable[[Ids, Snapshot], None]) -> None:
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

    def ends(self) -> Iterator[tuple[Ids, Snapshot]]:
        """The last checkpoint of every run."""
        return ((node.ids, _snapshot(node)) for node in self._tree if not node.children)

    def begin_request(self) -> None:
        """What is used from now on is fresher than all before."""
        self._clock += 1

    def use(self, node: Node, position: int) -> State | None:
        """Mark the checkpoint as used -> its live state if that can go back to `position`; then it is held no more."""
        assert node.checkpoint is not None
        node.checkpoint.last_used = self._clock
        state = node.checkpoint.live
        if state is None or node.depth - position > state.rollback_room:
            return None
        self._drop_live(node)
        return state

    def has(self, ids: Ids, state: State, *, is_named: bool) -> bool:
        """There is a checkpoint already, and it can step back as far as one of `state` could; mark it as used."""
        node = self._tree.at(ids)
        if node is None or node.checkpoint is None:
            return False
        node.checkpoint.last_used = self._clock
        node.checkpoint.is_named |= is_named
        return node.checkpoint.snapshot.rollback_room >= state.rollback_room

    def find(self, prompt: Ids) -> tuple[Node | None, int, int]:
        """The best checkpoint, the tokens of `prompt` it gives, and how many (short of the last) were seen before."""
        node, common = self._tree.descend(prompt)
        common = min(common, len(prompt) - 1)
        for ancestor in (node, *node.ancestors()):
            position = min(ancestor.depth, common)
            behind = [n for n in self._tree.nearby(ancestor, position + self._reach) if _reaches(n, position)]
            if behind and position:
                return min(behind, key=_handiness), position, common
        return None, 0, common

    def add(self, ids: Ids, snapshot: Snapshot, *, is_named: bool) -> Checkpoint | None:
        """Hold `snapshot` of `ids` if it fits -> its checkpoint, a new one or the one that was there."""
        if total_bytes(snapshot) > self.budget_bytes:
            return None
        self._reach = max(self._reach, snapshot.rollback_room)
        node = self._tree.at(ids)
        if node is not None and node.checkpoint is not None:
            self._replace(node, snapshot)
            self._make_room(node)
            return node.checkpoint
        checkpoint = Checkpoint(snapshot, is_named, self._clock)
        node = self._tree.insert(ids, checkpoint)
        self._ledger.enter(snapshot)
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

    def _replace(self, node: Node, snapshot: Snapshot) -> None:
        assert node.checkpoint is not None
        self._ledger.enter(snapshot)
        self._ledger.leave(node.checkpoint.snapshot)
        node.checkpoint.snapshot = snapshot

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
        assert node.checkpoint is not None
        assert node.checkpoint.live is not None
        self._ledger.leave(node.checkpoint.live)
        node.checkpoint.live = None
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
        checkpoint = node.checkpoint
        assert checkpoint is not None, "only checkpoints are evicted"
        if not node.is_inside_run:
            self._on_evict(node.ids, checkpoint.snapshot)
        if checkpoint.live is not None:
            self._drop_live(node)
        earlier = list(node.ancestors())
        self._ledger.leave(checkpoint.snapshot)
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


def _snapshot(node: Node) -> Snapshot:
    assert node.checkpoint is not None
    return node.checkpoint.snapshot


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
