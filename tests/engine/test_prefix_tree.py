"""The tree of checkpoints against a plain list of prompts, and how long a walk takes."""

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fakes.models import FakeSnapshot
from whitedwarf.engine.ledger import Ledger
from whitedwarf.engine.prefix_tree import Checkpoint, Node, PrefixTree
from whitedwarf.model.base import Ids


def insert(tree: PrefixTree, ids: list[int]) -> Node:
    return tree.insert(array(ids), Checkpoint(FakeSnapshot(tuple(ids)), is_named=False, last_used=0))


def array(ids: list[int]) -> Ids:
    return np.array(ids, np.int32)


def common(one: list[int], other: list[int]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


sequences = st.lists(st.integers(0, 1), min_size=1, max_size=9)


@given(st.lists(sequences, unique_by=tuple, max_size=25), st.sets(st.integers(0, 24)), sequences)
def test_a_walk_finds_what_a_list_finds(known: list[list[int]], removed: set[int], prompt: list[int]) -> None:
    tree = PrefixTree()
    nodes = [insert(tree, ids) for ids in known]
    for index in removed & set(range(len(known))):
        tree.remove(nodes[index])
    left = [ids for index, ids in enumerate(known) if index not in removed]
    assert sorted(node.ids.tolist() for node in tree) == sorted(left)
    node, shared = tree.descend(array(prompt))
    assert shared == max((common(ids, prompt) for ids in left), default=0)
    path = [before.depth for before in (node, *node.ancestors()) if before.checkpoint and before.depth <= shared]
    assert sorted(path) == sorted(len(ids) for ids in left if prompt[: len(ids)] == ids)
    below = [ids for ids in left if ids[:shared] == prompt[:shared] and shared <= len(ids) <= shared + 2]
    assert {tuple(n.ids.tolist()) for n in tree.nearby(node, shared + 2)} == set(map(tuple, below))


@given(st.lists(sequences, unique_by=tuple, max_size=25))
def test_nothing_stays_of_what_is_removed(known: list[list[int]]) -> None:
    tree = PrefixTree()
    for node in [insert(tree, ids) for ids in known]:
        tree.remove(node)
    assert len(tree) == 0
    root, shared = tree.descend(array([0, 1]))
    assert (root.depth, shared, root.children) == (0, 0, {})


def test_ends_and_partings_are_not_inside_a_run() -> None:
    tree = PrefixTree()
    one, two, left, right = (insert(tree, ids) for ids in ([1], [1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, 4, 6]))
    assert [node.is_inside_run for node in (one, two, left, right)] == [True, False, False, False]
    assert one.gap == 3
    assert {node.depth for node in tree.followers(two)} == {5}


def test_a_hundred_thousand_tokens_are_walked_in_a_moment() -> None:
    tree = PrefixTree()
    ids = np.random.default_rng(0).integers(0, 129_000, 100_000).astype(np.int32)
    for end in range(512, 100_000, 512):
        tree.insert(ids[:end], Checkpoint(FakeSnapshot(()), is_named=False, last_used=0))
    times_s = []
    for _ in range(5):
        begin_s = time.thread_time()
        _, shared = tree.descend(ids)
        times_s.append(time.thread_time() - begin_s)
    assert shared == 195 * 512
    assert min(times_s) < 0.010


class Held:
    def __init__(self, own_bytes: int, shared: dict[int, int]) -> None:
        self.own_bytes = own_bytes
        self._shared = shared

    def shared_bytes(self) -> dict[int, int]:
        return self._shared


def test_a_shared_buffer_counts_once_and_until_its_last_holder_leaves() -> None:
    ledger = Ledger()
    one, two = Held(10, {1: 100, 2: 50}), Held(20, {1: 100})
    totals = []
    for step, held in ((ledger.enter, one), (ledger.enter, two), (ledger.leave, one), (ledger.leave, two)):
        step(held)
        totals.append(ledger.total_bytes)
    assert totals == [160, 180, 120, 0]
