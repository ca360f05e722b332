"""Which checkpoints lie on the way of a prompt: a tree over runs of token ids.

It promises that a walk compares every token of the prompt at most once, array against array, and that nothing stays of
what is removed: every run below the root ends at a checkpoint or where prompts part. It knows no budget and no model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Optional

import numpy as np

from whitedwarf.model.base import Ids, Logits, Snapshot, State


@dataclass(eq=False, slots=True)
class Checkpoint:
    """A remembered position. `live` is the state that ended here, not continued by anybody yet: not counted here."""

    snapshot: Snapshot
    is_named: bool  # somebody asked for this position: it is the end of a message, a prompt or an answer
    last_used: int
    live: State | None = None
    num_users: int = 0
    logits: Logits | None = None  # (vocab,) after the last token, where a store may want them

    @property
    def own_bytes(self) -> int:
        return self.snapshot.own_bytes + (0 if self.logits is None else self.logits.nbytes)

    def shared_bytes(self) -> Mapping[int, int]:
        return self.snapshot.shared_bytes()


@dataclass(eq=False, slots=True)
class Node:
    """The end of a run of tokens, `depth` tokens from the root."""

    parent: Optional["Node"]
    run: Ids
    depth: int
    children: dict[int, "Node"] = field(default_factory=dict)  # by the first token of their run
    checkpoint: Checkpoint | None = None

    @property
    def ids(self) -> Ids:
        runs = [self.run, *(node.run for node in self.ancestors())]
        return np.concatenate(runs[::-1])

    def ancestors(self) -> Iterator["Node"]:
        """Nearest first, the root last."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def is_inside_run(self) -> bool:
        """Exactly one checkpoint follows, so losing this one costs only the stretch between its neighbours."""
        followers = list(self.children.values())
        return len(followers) == 1 and followers[0].checkpoint is not None

    @property
    def gap(self) -> int:
        """Tokens between the neighbours of a checkpoint inside a run."""
        before = next((node.depth for node in self.ancestors() if node.checkpoint is not None), 0)
        return min(child.depth for child in self.children.values()) - before


class PrefixTree:
    def __init__(self) -> None:
        self._root = Node(None, np.empty(0, np.int32), 0)
        self._with_checkpoint: dict[Node, None] = {}  # in order of arrival, so that ties are settled the same way

    def __iter__(self) -> Iterator[Node]:
        """All nodes with a checkpoint."""
        return iter(self._with_checkpoint)

    def __contains__(self, node: Node) -> bool:
        return node in self._with_checkpoint

    def __len__(self) -> int:
        return len(self._with_checkpoint)

    def descend(self, ids: Ids) -> tuple[Node, int]:
        """The last node whose run shares tokens with `ids`, and how many tokens are shared from the root on."""
        node, common = self._root, 0
        while common == node.depth and common < len(ids):
            child = node.children.get(int(ids[common]))
            if child is None:
                break
            common += _common_length(child.run, ids[common:])
            node = child
        return node, common

    def after(self, node: Node, depth: int, count: int) -> tuple[int, ...]:
        """Up to `count` ids that follow the first `depth`, on the newest way down; `node` is where a walk ended."""
        found = node.run[len(node.run) - (node.depth - depth) :].tolist()
        while len(found) < count and node.children:
            node = next(reversed(node.children.values()))
            found += node.run[:count].tolist()
        return tuple(found[:count])

    def at(self, ids: Ids) -> Node | None:
        """The node of exactly `ids`."""
        node, common = self.descend(ids)
        return node if common == node.depth == len(ids) else None

    def nearby(self, node: Node, limit: int) -> Iterator[Node]:
        """Checkpoints at `node` and below it, down to depth `limit`."""
        if node.depth > limit:
            return
        if node.checkpoint is not None:
            yield node
        for child in node.children.values():
            yield from self.nearby(child, limit)

    def followers(self, node: Node) -> Iterator[Node]:
        """The next checkpoint on every way down from `node`."""
        for child in node.children.values():
            if child.checkpoint is not None:
                yield child
            else:
                yield from self.followers(child)

    def insert(self, ids: Ids, checkpoint: Checkpoint) -> Node:
        """Remember `checkpoint` (of at least one token, none there yet)."""
        node, common = self.descend(ids)
        if common < node.depth:
            node = self._split(node, common)
        if common < len(ids):
            node = self._grow(node, ids[common:].copy())
        assert node.checkpoint is None, "one checkpoint per position"
        assert node is not self._root, "none at 0"
        node.checkpoint = checkpoint
        self._with_checkpoint[node] = None
        return node

    def remove(self, node: Node) -> None:
        """Forget the checkpoint at `node`, and the node where nothing needs it."""
        node.checkpoint = None
        del self._with_checkpoint[node]
        self._tidy(node)

    def _tidy(self, node: Node) -> None:
        parent = node.parent
        if parent is None or node.checkpoint is not None or len(node.children) > 1:
            return
        if not node.children:
            del parent.children[int(node.run[0])]
            self._tidy(parent)
            return
        (child,) = node.children.values()
        child.run = np.concatenate([node.run, child.run])
        child.parent = parent
        parent.children[int(child.run[0])] = child

    def _split(self, node: Node, depth: int) -> Node:
        """A new node in the middle of the run of `node`."""
        parent = node.parent
        assert parent is not None, "the root has no run"
        cut = depth - parent.depth
        middle = Node(parent, node.run[:cut].copy(), depth)
        parent.children[int(middle.run[0])] = middle
        node.run, node.parent = node.run[cut:].copy(), middle
        middle.children[int(node.run[0])] = node
        return middle

    def _grow(self, node: Node, run: Ids) -> Node:
        child = Node(node, run, node.depth + len(run))
        node.children[int(run[0])] = child
        return child


def _common_length(one: Ids, other: Ids) -> int:
    shorter = min(len(one), len(other))
    different = one[:shorter] != other[:shorter]
    first = int(different.argmax()) if shorter else 0
    return first if shorter and different[first] else shorter
