"""Operations in one call are the operations one by one, bit for bit, whatever types, rows and threads."""

import numpy as np
import pytest

from native.weights import FLOATS, LEVELS, QUANTISED, random_rows, random_weights
from whitedwarf._native import Kernels, Matrix
from whitedwarf.gguf.types import GgmlType

COLS, EPSILON = 512, 1e-6
TYPES = (GgmlType.Q8_0, *QUANTISED, *FLOATS)


def matrices(seed: int, cols: int = COLS) -> list[Matrix]:
    rng = np.random.default_rng(seed)
    return [random_weights(rng, type, (1 + 37 * place, cols)).matrix for place, type in enumerate(TYPES)]


def empty(rows: int, weights: list[Matrix]) -> list[np.ndarray]:
    return [np.empty((rows, w.shape[0]), np.float32) for w in weights]


def one_by_one(kernels: Kernels, x: np.ndarray, weights: list[Matrix], quality: bool) -> list[np.ndarray]:
    outs = empty(len(x), weights)
    for w, out in zip(weights, outs, strict=True):
        kernels.linear(x, w, out, quality)
    return outs


@pytest.mark.parametrize("quality", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("level", LEVELS)
def test_several_products_are_the_products_one_by_one(level, threads, quality):
    kernels, weights = Kernels(threads, level), matrices(1)
    norm = np.random.default_rng(2).standard_normal(COLS).astype(np.float32)
    for rows in (0, 1, 2, 5, 8, 9, 40):
        x = random_rows(np.random.default_rng(rows), rows, COLS)
        normed = np.empty_like(x)
        kernels.rms_norm(x, norm, EPSILON, normed)
        for given, factor in ((x, None), (normed, norm)):
            outs = empty(rows, weights)
            kernels.linears(x, factor, EPSILON, weights, outs, quality)
            for out, expected in zip(outs, one_by_one(kernels, given, weights, quality), strict=True):
                assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("threads", [1, 3])
def test_a_grouped_product_and_a_plain_one(threads):
    kernels, rng = Kernels(threads), np.random.default_rng(3)
    first = random_weights(rng, GgmlType.Q8_0, (64, 256)).matrix
    second = random_weights(rng, GgmlType.Q4_K, (33, 256)).matrix
    wide = random_weights(rng, GgmlType.Q8_0, (256, 256)).matrix
    for rows in (1, 7):
        x = random_rows(rng, rows, 1024)
        middle, expected, out = (np.empty((rows, n), np.float32) for n in (256, 33, 33))
        kernels.grouped_linear(x, wide, middle, 4, False)
        kernels.linear(middle, second, expected, False)
        kernels.grouped_then_linear(x, wide, 4, second, out, False)
        assert out.tobytes() == expected.tobytes()
    with pytest.raises(ValueError, match=r"second must be \(33, 64\); got \(1, 33, 256\)"):
        kernels.grouped_then_linear(x, first, 4, second, out, False)


def test_wrong_shapes_are_refused():
    kernels, weights = Kernels(1), matrices(4)
    x = random_rows(np.random.default_rng(5), 2, COLS)
    with pytest.raises(ValueError, match="as many"):
        kernels.linears(x, None, EPSILON, weights, empty(2, weights)[:-1], False)
    with pytest.raises(ValueError, match="out must be"):
        kernels.linears(x, None, EPSILON, weights, empty(3, weights), False)
    with pytest.raises(ValueError, match="weight must be"):
        kernels.linears(x[:, :256].copy(), None, EPSILON, weights, empty(2, weights), False)
    with pytest.raises(ValueError, match="norm must be"):
        kernels.linears(x, np.ones(3, np.float32), EPSILON, weights, empty(2, weights), False)
    with pytest.raises((TypeError, RuntimeError)):
        kernels.linears(x, None, EPSILON, weights, [np.empty(out.shape) for out in empty(2, weights)], False)
