"""Directions from activations: what the mean difference is, what is left out, what is none."""

import numpy as np
import pytest

from whitedwarf.errors import WhitedwarfError
from whitedwarf.model.steering_build import build_directions


def activations(seed: int, pairs: int = 6, layers: int = 3, width: int = 16) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(pairs, layers, width))


def test_a_planted_difference_is_found() -> None:
    planted = activations(9, pairs=1)[0]
    bad = activations(1)
    found = build_directions(bad + 3 * planted, bad, is_orthogonal=False)
    np.testing.assert_allclose(found, planted / np.linalg.norm(planted, axis=1, keepdims=True), atol=1e-6)
    assert found.dtype == np.float32


def test_what_is_shared_with_the_bad_mean_is_left_out() -> None:
    good, bad = activations(1), activations(2)
    found = build_directions(good, bad).astype(np.float64)
    np.testing.assert_allclose((found * bad.mean(axis=0)).sum(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_far_pairs_count_no_more_than_near_ones_where_that_is_wished() -> None:
    bad = np.zeros((2, 1, 4))
    good = np.array([[[100.0, 0, 0, 0]], [[0, 1.0, 0, 0]]])
    equal = build_directions(good, bad, is_pair_normalised=True)
    np.testing.assert_allclose(equal, [[2**-0.5, 2**-0.5, 0, 0]], atol=1e-6)
    assert build_directions(good, bad)[0, 0] > 0.999


def test_a_layer_without_a_difference_is_left_out() -> None:
    good, bad = activations(1), activations(2)
    good[:, 1] = bad[:, 1] * (1 + 1e-14)
    found = build_directions(good, bad)
    assert [bool(row.any()) for row in found] == [True, False, True]


def test_a_difference_that_is_all_shared_is_none() -> None:
    bad = np.repeat(activations(3, pairs=1), 4, axis=0)
    with pytest.raises(WhitedwarfError, match="do not differ in any layer"):
        build_directions(2 * bad, bad)
    with pytest.raises(WhitedwarfError, match="do not differ"):
        build_directions(bad, bad, is_pair_normalised=True)


def test_sets_of_other_sizes_are_a_bug() -> None:
    with pytest.raises(ValueError, match="one shape"):
        build_directions(activations(1, pairs=2), activations(2))
