"""From sums to a file's entries: order, followers, coverage."""

import numpy as np

from whitedwarf.calibration.importance import FOLLOWERS, coverage, make_imatrix
from whitedwarf.gguf.names import canonical_to_release
from whitedwarf.ops.moments import Moments

NAMES = [f"blk.{layer}.ffn_{part}_exps.weight" for layer in (0, 1, 10) for part in ("gate", "up", "down")]


def moments() -> Moments:
    found = Moments()
    for layer in (10, 1, 0):
        for part in ("down", "gate"):
            found.declare(f"blk.{layer}.ffn_{part}_exps.weight", 2, 4)
            found.add(f"blk.{layer}.ffn_{part}_exps.weight", layer % 2, np.full((3, 4), layer + 1.0))
    return found


def test_routed_experts_come_in_the_originals_order_and_up_is_gate() -> None:
    found = make_imatrix(moments(), frozenset(NAMES), "d.txt", 7, 512)
    assert list(found.names) == NAMES
    for expert, mean in ((0, 1.0), (1, 4.0)):
        weights = found.weights(NAMES[4], 4, expert, 2)  # of layer 1's up
        assert weights is not None
        assert weights.tolist() == [mean] * 4
    assert (found.dataset, found.chunks, found.chunk_size) == ("d.txt", 7, 512)


def test_followers_that_the_model_lacks_have_no_entry() -> None:
    found = Moments()
    found.declare("blk.0.attn_q_a.weight", 1, 2)
    found.declare("output.weight", 1, 2)
    names = {"blk.0.attn_q_a.weight", "blk.0.attn_kv.weight", "output.weight"}
    assert set(make_imatrix(found, frozenset(names), "", 0, 0).names) == names


def test_every_follower_is_a_tensor_of_the_architecture() -> None:
    names = [*FOLLOWERS, *(name for names in FOLLOWERS.values() for name in names)]
    assert all(canonical_to_release(f"blk.0.{name}") for name in names)


def test_coverage_tells_experts_that_were_never_picked() -> None:
    first, second, third = coverage(moments())
    assert (first.layer, first.experts, first.never, first.fewest) == (0, 2, (1,), 3)
    assert (second.layer, second.never, third.layer) == (1, (0,), 10)
