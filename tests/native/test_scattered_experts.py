"""Experts that lie apart and come in rounds: the bits of one call over a stack, and no expert that is not there."""

import gc
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native.test_experts import KERNELS, LIMIT, TWO_THREADS, Network, network, routing
from native.weights import LEVELS, random_rows
from whitedwarf._native import Kernels, ScatteredMatrix
from whitedwarf.gguf.types import GgmlType

E, D = 5, 256

levels = st.sampled_from(LEVELS)
types = st.sampled_from((GgmlType.IQ2_XXS, GgmlType.Q2_K, GgmlType.MXFP4, GgmlType.Q8_0, GgmlType.BF16))
seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True, slots=True)
class Apart:
    """A network's experts, each to be put where it is copied to."""

    whole: Network
    matrices: tuple[ScatteredMatrix, ScatteredMatrix, ScatteredMatrix]

    @classmethod
    def of(cls, whole: Network) -> "Apart":
        parts = whole.gate, whole.up, whole.down
        return cls(whole, tuple(ScatteredMatrix(int(part.type), part.shape) for part in parts))

    def put(self, expert: int, offset: int = 0) -> None:
        """A copy `offset` bytes behind an aligned address, in memory that nobody else keeps."""
        for weights, matrix in zip((self.whole.gate, self.whole.up, self.whole.down), self.matrices, strict=True):
            size = weights.data.size // weights.shape[0]
            room = np.zeros(size + offset + 64, np.uint8)
            start = -room.ctypes.data % 64 + offset
            room[start : start + size] = weights.data[expert * size : (expert + 1) * size]
            matrix.put(expert, room[start : start + size])

    def clear(self, expert: int) -> None:
        for matrix in self.matrices:
            matrix.clear(expert)

    def run(self, kernels, x, ids, weights, quality, rounds, shared=None):
        """Round after round, with nothing of the others there."""
        out, is_met = np.full(x.shape, np.nan, np.float32), np.zeros(len(x), np.uint8)
        for number, experts in enumerate(rounds, 1):
            for expert in experts:
                self.put(expert, offset=2 * number)
            picked = np.where(np.isin(ids, experts), ids, -1).astype(np.int32)
            last = shared if number == len(rounds) else None
            kernels.add_experts(x, picked, weights, (*self.matrices, LIMIT), last, out, is_met, quality)
            for expert in experts:
                self.clear(expert)
        return out, is_met


def cut(rng, experts):
    """Any split into rounds, ascending; some of them empty."""
    places = np.sort(rng.integers(0, len(experts) + 1, rng.integers(0, len(experts) + 2)))
    return [part.tolist() for part in np.split(experts, places)]


@settings(max_examples=60, deadline=None)
@given(levels, st.booleans(), types, types, seeds, st.integers(1, 40), st.integers(1, 4), st.booleans())
def test_any_split_into_rounds_gives_the_bits_of_one_call(level, quality, gate, down, seed, tokens, slots, is_shared):
    rng = np.random.default_rng(seed)
    net = network(rng, gate, gate, down)
    x = random_rows(rng, tokens, D)
    ids, weights = routing(rng, tokens, slots)
    shared = network(rng, gate, gate, down, experts=1, width=512).first() if is_shared else None
    expected = net.run(KERNELS["scalar"], x, ids, weights, quality, shared=shared)
    rounds = cut(rng, np.unique(ids))
    for kernels in (KERNELS[level], TWO_THREADS[level]):
        got, is_met = Apart.of(net).run(kernels, x, ids, weights, quality, rounds, shared)
        np.testing.assert_array_equal(got, expected)
        assert is_met.all()


def test_rows_that_met_nobody_are_left_alone_and_the_shared_expert_begins_their_sum():
    rng = np.random.default_rng(1)
    net = network(rng, GgmlType.Q8_0, GgmlType.Q8_0, GgmlType.Q8_0)
    apart = Apart.of(net)
    apart.put(3)
    x = random_rows(rng, 2, D)
    ids, weights = np.array([[3, -1], [-1, -1]], np.int32), np.ones((2, 2), np.float32)
    out, is_met = np.full(x.shape, np.nan, np.float32), np.zeros(2, np.uint8)
    block = (*apart.matrices, LIMIT)
    KERNELS["scalar"].add_experts(x, ids, weights, block, None, out, is_met, False)
    assert is_met.tolist() == [1, 0]
    assert np.isnan(out[1]).all()
    alone = net.run(KERNELS["scalar"], x, np.array([[3], [0]], np.int32), np.ones((2, 1), np.float32), False)
    np.testing.assert_array_equal(out[0], alone[0])
    KERNELS["scalar"].add_experts(x, np.full_like(ids, -1), weights, block, net.first(), out, is_met, False)
    first = net.run(KERNELS["scalar"], x, np.zeros((2, 1), np.int32), np.ones((2, 1), np.float32), False)
    np.testing.assert_array_equal(out, [alone[0] + first[0], first[1]])


def test_a_round_without_anybody_changes_nothing():
    apart = Apart.of(network(np.random.default_rng(2), GgmlType.Q8_0, GgmlType.Q8_0, GgmlType.Q8_0))
    for tokens in (0, 1, 40):
        x = np.ones((tokens, D), np.float32)
        out, is_met = np.full(x.shape, 7, np.float32), np.ones(tokens, np.uint8)
        nobody, weights = np.full((tokens, 2), -1, np.int32), np.ones((tokens, 2), np.float32)
        TWO_THREADS["scalar"].add_experts(x, nobody, weights, (*apart.matrices, LIMIT), None, out, is_met, False)
        assert (out == 7).all()


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_an_expert_that_was_picked_and_is_not_there_is_refused(missing):
    apart = Apart.of(network(np.random.default_rng(3), GgmlType.Q8_0, GgmlType.Q8_0, GgmlType.Q8_0))
    for expert in (1, 2):
        apart.put(expert)
    apart.matrices[missing].clear(2)
    x, ids, weights = np.ones((1, D), np.float32), np.array([[1, 2]], np.int32), np.ones((1, 2), np.float32)
    out, is_met = np.full(x.shape, 7, np.float32), np.zeros(1, np.uint8)
    block = (*apart.matrices, LIMIT)
    with pytest.raises(ValueError, match="expert 2 was picked, but its gate, up and down are not all here"):
        KERNELS["scalar"].add_experts(x, ids, weights, block, None, out, is_met, False)
    assert (out == 7).all()
    assert not is_met.any()


def test_what_was_put_is_kept_alive():
    """`put` makes copies that nobody else holds."""
    rng = np.random.default_rng(4)
    net = network(rng, GgmlType.Q8_0, GgmlType.Q8_0, GgmlType.Q8_0)
    apart = Apart.of(net)
    for expert in range(E):
        apart.put(expert)
        apart.put(expert)
    gc.collect()
    x = random_rows(rng, 3, D)
    ids, weights = routing(rng, 3, 4)
    out, is_met = np.empty(x.shape, np.float32), np.zeros(3, np.uint8)
    KERNELS["scalar"].add_experts(x, ids, weights, (*apart.matrices, LIMIT), None, out, is_met, False)
    np.testing.assert_array_equal(out, net.run(KERNELS["scalar"], x, ids, weights, False))


def test_nothing_is_put_elsewhere_while_it_is_read():
    rng = np.random.default_rng(5)
    net = network(rng, GgmlType.Q8_0, GgmlType.Q8_0, GgmlType.Q8_0)
    apart = Apart.of(net)
    for expert in range(E):
        apart.put(expert)
    x = random_rows(rng, 30, D)
    ids, weights = routing(rng, 30, 4)
    out, is_met = np.empty(x.shape, np.float32), np.zeros(30, np.uint8)
    refusals = []
    has_ended = threading.Event()

    def meddle():
        while not has_ended.is_set():
            try:
                apart.put(0)
            except RuntimeError as error:
                refusals.append(str(error))

    thread = threading.Thread(target=meddle)
    thread.start()
    kernels = Kernels(1, "scalar")
    for _ in range(200):
        is_met[:] = 0
        kernels.add_experts(x, ids, weights, (*apart.matrices, LIMIT), None, out, is_met, False)
        if refusals:
            break
    has_ended.set()
    thread.join()
    assert "another thread computes with these experts" in refusals[0]
    np.testing.assert_array_equal(out, net.run(KERNELS["scalar"], x, ids, weights, False))


class TestRefusals:
    def test_of_what_is_put(self):
        matrix = ScatteredMatrix(int(GgmlType.Q8_0), (3, 2, 64))
        with pytest.raises(ValueError, match="Q8_0 matrix of this shape takes 136 bytes; got 135"):
            matrix.put(0, np.zeros(135, np.uint8))
        for expert in (-1, 3):
            with pytest.raises(ValueError, match="expert must be 0 to 2; got"):
                matrix.put(expert, np.zeros(136, np.uint8))
            with pytest.raises(ValueError, match="expert must be 0 to 2; got"):
                matrix.clear(expert)
        with pytest.raises(TypeError):
            matrix.put(0, np.zeros(136, np.int8))
        assert matrix.shape == (3, 2, 64)
        assert matrix.type == GgmlType.Q8_0

    def test_of_shapes(self):
        with pytest.raises(ValueError, match="is \\(experts, rows, cols\\); got 2 dimensions"):
            ScatteredMatrix(int(GgmlType.Q8_0), (2, 64))
        with pytest.raises(ValueError, match="blocks of 32; got 40 columns"):
            ScatteredMatrix(int(GgmlType.Q8_0), (3, 2, 40))
        with pytest.raises(ValueError, match="no kernels for GGUF type 99"):
            ScatteredMatrix(99, (3, 2, 64))

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"ids": np.array([[-2, 0]], np.int32)}, "ids must be -1 to 4; got -2"),
            ({"ids": np.array([[0, 5]], np.int32)}, "ids must be -1 to 4; got 5"),
            ({"is_met": np.zeros(2, np.uint8)}, "is_met must be \\(1\\); got \\(2\\)"),
            ({"out": np.zeros((2, D), np.float32)}, "out must be \\(1, 256\\)"),
            ({"x": np.zeros((1, 128), np.float32)}, "gate must be \\(5, 256, 128\\)"),
        ],
    )
    def test_of_arguments(self, changes, told):
        apart = Apart.of(network(np.random.default_rng(6), GgmlType.Q8_0, GgmlType.Q8_0, GgmlType.Q8_0))
        given = {
            "x": np.zeros((1, D), np.float32),
            "ids": np.full((1, 2), -1, np.int32),
            "weights": np.zeros((1, 2), np.float32),
            "out": np.zeros((1, D), np.float32),
            "is_met": np.zeros(1, np.uint8),
        }
        with pytest.raises(ValueError, match=told):
            KERNELS["scalar"].add_experts(
                **{**given, **changes}, routed=(*apart.matrices, LIMIT), shared=None, quality=False
            )

    def test_scattered_matrices_are_no_stacks(self):
        apart = Apart.of(network(np.random.default_rng(7), GgmlType.Q8_0, GgmlType.Q8_0, GgmlType.Q8_0))
        x, ids, weights = np.zeros((1, D), np.float32), np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32)
        with pytest.raises(TypeError):
            KERNELS["scalar"].experts(x, ids, weights, (*apart.matrices, LIMIT), None, np.empty_like(x), False)
