"""Queries and stored rows in Triton: near their twins, and the twins' bytes for the floats they make."""

import numpy as np
import pytest

pytest.importorskip("triton")

from ops.cases import EPSILON, KEY_KINDS, KV_KINDS, Draw, assert_close, assert_same_bits
from ops.test_rounding import nasty_rows
from ops.torch_cases import from_device, on_device
from whitedwarf.ops.base import RowFormat, RowKind
from whitedwarf.ops.rows import encode_rows, round_like_keys
from whitedwarf.ops.triton import rows as kernel
from whitedwarf.ops.twins import rows as twin


@pytest.mark.parametrize(
    ("n", "heads", "dims", "rope"), [(1, 9, 64, 16), (3, 4, 128, 64), (2, 1, 512, 64), (2, 2, 96, 0)]
)
def test_query(n, heads, dims, rope):
    draw = Draw.seeded(n + heads)
    x, turns = on_device(draw.floats(n, heads * dims)), on_device(draw.turns(n, rope))
    assert_close(
        from_device(kernel.query(x, heads, turns, EPSILON)), from_device(twin.query(x, heads, turns, EPSILON)), 1e-6
    )


@pytest.mark.parametrize("kind", KV_KINDS)
@pytest.mark.parametrize(("dims", "rope"), [(64, 16), (128, 16), (128, 64), (512, 64)])
def test_kv_rows_are_the_twin_s_floats_rounded_as_their_format_says(dims, rope, kind):
    draw, n = Draw.seeded(dims + rope), 4
    x, norm, turns = map(on_device, (draw.floats(n, dims) * 50, draw.floats(dims), draw.turns(n, rope)))
    floats = RowFormat(RowKind.F32, dims, rope)
    plain = from_device(kernel.kv_rows(x, norm, turns, EPSILON, floats)).view(np.float32)
    expected = from_device(twin.kv_rows(x, norm, turns, EPSILON, floats)).view(np.float32)
    assert_close(plain, expected, 1e-6)
    format = RowFormat(kind, dims, rope)
    assert_same_bits(from_device(kernel.kv_rows(x, norm, turns, EPSILON, format)), encode_rows(plain, format))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KV_KINDS)
def test_rows_of_any_floats_are_stored_bit_for_bit_like_the_reference(seed, kind):
    """A norm of ones over rows of rms 1 leaves floats alone, or nearly: what it makes of them is rounded alike."""
    draw, dims = Draw.seeded(seed), 128
    x, norm = (
        on_device(nasty_rows(draw, 6, dims)),
        on_device(np.exp2(draw.rng.integers(-9, 9, dims)).astype(np.float32)),
    )
    turns = on_device(draw.turns(6, 16))
    with np.errstate(over="ignore", invalid="ignore"):
        plain = from_device(kernel.kv_rows(x, norm, turns, EPSILON, RowFormat(RowKind.F32, dims, 16))).view(np.float32)
        format = RowFormat(kind, dims, 16)
        assert_same_bits(from_device(kernel.kv_rows(x, norm, turns, EPSILON, format)), encode_rows(plain, format))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_row_with_something_that_is_no_number_is_stored_like_the_reference(value):
    draw, format = Draw.seeded(1), RowFormat(RowKind.PACKED_KV, 128, 16)
    x, norm = draw.floats(2, 128), np.ones(128, np.float32)
    norm[3] = value
    rest = on_device(norm), on_device(draw.turns(2, 16)), EPSILON
    with np.errstate(all="ignore"):
        plain = from_device(kernel.kv_rows(on_device(x), *rest, RowFormat(RowKind.F32, 128, 16))).view(np.float32)
        assert_same_bits(from_device(kernel.kv_rows(on_device(x), *rest, format)), encode_rows(plain, format))


@pytest.mark.parametrize("kind", KEY_KINDS)
@pytest.mark.parametrize(("heads", "dims", "rope"), [(4, 128, 64), (9, 32, 16)])
def test_index_queries_are_rounded_bit_for_bit_like_the_twin(heads, dims, rope, kind):
    draw, format, plain_format = Draw.seeded(heads), RowFormat(kind, dims, rope), RowFormat(RowKind.F32, dims, rope)
    x, turns = on_device(np.minimum(nasty_rows(draw, 3, heads * dims), 1e15)), on_device(draw.turns(3, rope))
    plain = from_device(kernel.index_query(x, heads, turns, plain_format))
    assert_close(plain, from_device(twin.index_query(x, heads, turns, plain_format)), 1e-6)
    out = from_device(kernel.index_query(x, heads, turns, format))
    assert_same_bits(out, round_like_keys(plain, format))
