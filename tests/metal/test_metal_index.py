"""The choice of the best keys on Metal, run on the CPU, against the reference."""

import numpy as np
import pytest

from metal.cases import kernels, needs_compiler, on_mlx  # noqa: F401
from ops.cases import REFERENCE, Draw, exact
from ops.test_cpu_index import repeated_keys, simple_floats
from whitedwarf.ops.base import RowFormat, RowKind
from whitedwarf.ops.metal.index import best, index_pick

pytestmark = [pytest.mark.mlx, needs_compiler]


def test_the_best_keys_are_picked_and_ties_go_to_the_lowest_row(kernels):  # noqa: F811
    draw, format = Draw.seeded(1), RowFormat(RowKind.F16, 32, 16)
    keys, counts = repeated_keys(draw, 700, format), np.array([0, 3, 90, 91, 600, 700], np.int32)
    queries, weights = simple_floats(draw, 6, 4, 32), simple_floats(draw, 6, 4)
    expected = REFERENCE.index_pick(exact(queries), exact(weights), keys, counts, 90)
    arrays = map(on_mlx, (queries, weights, keys.data))
    np.testing.assert_array_equal(np.array(index_pick(*arrays, format, on_mlx(counts), 90)), expected)
    assert kernels.launched == ["index_best"]


def test_scores_of_every_sign_and_size_are_put_in_order(kernels):  # noqa: F811
    draw, top = Draw.seeded(2), 50
    scores = draw.floats(3, 300) * np.exp2(draw.rng.integers(-140, 120, (3, 300))).astype(np.float32)
    scores[1, ::2] = draw.rng.choice([0.0, -0.0], 150)
    scores[2] = -np.abs(scores[2])
    picked = np.array(best(on_mlx(scores), on_mlx(np.array([300, 290, 300], np.int32)), top))
    for row, count, mine in zip(scores, (300, 290, 300), picked, strict=True):
        np.testing.assert_array_equal(mine, np.sort(np.argsort(-row[:count], kind="stable")[:top]))
