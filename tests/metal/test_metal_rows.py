"""Rows, pooling and routing on Metal, run on the CPU, against the reference."""

import numpy as np
import pytest

from metal.cases import kernels, needs_compiler, on_mlx  # noqa: F401
from ops.cases import EPSILON, REFERENCE, Draw, assert_close, assert_same_bits, exact
from ops.test_rounding import nasty_rows
from whitedwarf.ops.base import Groups, RouterWeights, RowFormat, RowKind
from whitedwarf.ops.metal import pool, rows
from whitedwarf.ops.metal.route import route
from whitedwarf.ops.reference import ReferenceWeight
from whitedwarf.ops.rows import decode_rows, encode_rows

pytestmark = [pytest.mark.mlx, needs_compiler]
KINDS = [RowKind.F16, RowKind.PACKED_KV, RowKind.PACKED_KV_F16, RowKind.PACKED_KEY]


def plain_rows(x: np.ndarray, norm: np.ndarray, turns: np.ndarray) -> np.ndarray:
    format = RowFormat(RowKind.F32, x.shape[1], 2 * turns.shape[1])
    return np.array(rows.kv_rows(*map(on_mlx, (x, norm, turns)), EPSILON, format)).view(np.float32)


def test_query(kernels):  # noqa: F811
    draw = Draw.seeded(1)
    x, turns = draw.floats(3, 5 * 96), draw.turns(3, 16)
    expected = REFERENCE.query(exact(x), 5, exact(turns), EPSILON)
    assert_close(np.array(rows.query(on_mlx(x), 5, on_mlx(turns), EPSILON)), expected, 1e-6)
    assert kernels.launched == ["rows_made"]


@pytest.mark.parametrize("kind", KINDS)
def test_kv_rows_are_the_reference_s_floats_rounded_as_their_format_says(kernels, kind):  # noqa: F811
    draw, dims = Draw.seeded(2), 128 if kind is RowKind.PACKED_KEY else 160
    x, norm, turns = draw.floats(6, dims) * 50, draw.floats(dims), draw.turns(6, 48)
    plain = plain_rows(x, norm, turns)
    floats = RowFormat(RowKind.F32, dims, 48)
    expected = REFERENCE.kv_rows(exact(x), exact(norm), exact(turns), EPSILON, floats).view(np.float32)
    assert_close(plain, expected, 1e-6)
    format = RowFormat(kind, dims, 48)
    stored = np.array(rows.kv_rows(*map(on_mlx, (x, norm, turns)), EPSILON, format))
    assert_same_bits(stored, encode_rows(plain, format))


@pytest.mark.parametrize("kind", KINDS)
def test_ties_zeros_subnormals_and_infinities_are_stored_like_the_reference_s(kernels, kind):  # noqa: F811
    """Rows that are not normed, and turned by nothing."""
    format, draw = RowFormat(kind, 128, 16), Draw.seeded(3)
    x = nasty_rows(draw, 40, 128)
    x[7, 3], x[8, 5], x[9, :4] = np.inf, -np.inf, np.nan
    turns = np.stack([np.ones((40, 8)), np.zeros((40, 8))], axis=-1).astype(np.float32)
    made = rows._made(on_mlx(x), None, on_mlx(turns), 0.0, format, rows.NO_NORM).view(rows.mx.uint8)
    with np.errstate(all="ignore"):
        expected = encode_rows(x, format)
        ours, theirs = (decode_rows(data, format, np.float32) for data in (np.array(made), expected))
    np.testing.assert_array_equal(ours, theirs)
    numbers = np.isfinite(x).all(axis=1)
    assert_same_bits(np.array(made)[numbers], expected[numbers])


@pytest.mark.parametrize("kind", [RowKind.F16, RowKind.PACKED_KEY])
def test_index_query(kernels, kind):  # noqa: F811
    draw, format = Draw.seeded(4), RowFormat(kind, 64, 16)
    x, turns = draw.floats(3, 5 * 64), draw.turns(3, 16)
    plain = np.array(rows.index_query(on_mlx(x), 5, on_mlx(turns), RowFormat(RowKind.F32, 64, 16)))
    expected = REFERENCE.index_query(exact(x), 5, exact(turns), RowFormat(RowKind.F32, 64, 16))
    assert_close(plain, expected, 1e-6)
    if kind is RowKind.PACKED_KEY:
        plain = decode_rows(encode_rows(plain.reshape(-1, 64), format), format, np.float32).reshape(3, 5, 64)
    assert_same_bits(np.array(rows.index_query(on_mlx(x), 5, on_mlx(turns), format)), plain)


@pytest.mark.parametrize(("ratio", "first", "groups"), [(4, 0, 3), (4, 8, 2), (128, 100, 1)])
def test_compress(kernels, ratio, first, groups):  # noqa: F811
    draw, dims = Draw.seeded(ratio + first), 96
    width = 2 * dims if ratio == 4 else dims
    first_group = 0 if first == 0 else -(-first // ratio) + 1
    span = Groups(first_group, first_group + groups, ratio)
    positions = span.end * ratio - first + 3
    values, gates = draw.floats(positions, width), draw.floats(positions, width) * 4
    ape, norm, turns = draw.floats(ratio, width), draw.floats(dims), draw.turns(groups, 16)
    format = RowFormat(RowKind.F32, dims, 16)
    where, how = (first, span), (EPSILON, format)
    arrays = values, gates, ape, norm, turns
    ours = pool.compress(*map(on_mlx, arrays[:2]), *where, *map(on_mlx, arrays[2:]), *how)
    expected = REFERENCE.compress(*map(exact, arrays[:2]), *where, *map(exact, arrays[2:]), *how)
    assert_close(np.array(ours).view(np.float32), expected.view(np.float32))


@pytest.mark.parametrize("kind", ["bias", "table", "plain"])
def test_route(kernels, kind):  # noqa: F811
    draw, n, num_experts = Draw.seeded(6), 5, 70
    logits, ids = draw.floats(n, num_experts) * 3, draw.rng.integers(0, 50, n).astype(np.int32)
    logits[0, ::3], logits[1, 5:9], logits[2] = -15, [-150, -25, 25, 2000], 0
    bias = np.round(draw.floats(num_experts), 1) if kind == "bias" else None
    table = draw.rng.integers(0, num_experts, (50, 6)).astype(np.int32) if kind == "table" else None
    optional = [None if x is None else on_mlx(x) for x in (bias, table)]
    normalise = kind != "plain"
    experts, weights = route(on_mlx(logits), *optional, on_mlx(ids), 6, 1.5, normalise)
    gate = ReferenceWeight(exact(np.eye(num_experts, dtype=np.float32)))
    router = RouterWeights(gate, None if bias is None else exact(bias), table, 6, 1.5, normalise)
    expected_experts, expected_weights = REFERENCE.route(exact(logits), router, ids)
    np.testing.assert_array_equal(np.array(experts), expected_experts)
    assert_close(np.array(weights), expected_weights)
    assert kernels.launched == ["route"]
