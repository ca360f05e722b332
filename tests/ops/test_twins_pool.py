"""Windows pooled in plain torch, against the reference in float64."""

import numpy as np
import pytest

pytest.importorskip("torch")

from ops.cases import EPSILON, KV_KINDS, REFERENCE, Draw, assert_close, assert_same_bits, exact
from ops.torch_cases import from_device, on_device
from whitedwarf.ops.base import Groups, RowFormat, RowKind
from whitedwarf.ops.rows import encode_rows
from whitedwarf.ops.twins.pool import compress


@pytest.mark.parametrize(("ratio", "first", "groups"), [(4, 0, 3), (4, 8, 2), (4, 5, 4), (128, 0, 2), (128, 100, 1)])
@pytest.mark.parametrize("dims", [64, 512])
def test_compress(ratio, first, groups, dims):
    draw = Draw.seeded(ratio + first)
    width = 2 * dims if ratio == 4 else dims
    first_group = 0 if first == 0 else -(-first // ratio) + 1
    span = Groups(first_group, first_group + groups, ratio)
    positions = span.end * ratio - first + 3
    values, gates = draw.floats(positions, width), draw.floats(positions, width) * 4
    ape, norm, turns = draw.floats(ratio, width), draw.floats(dims), draw.turns(groups, 64)
    inputs = on_device(values), on_device(gates), first, span, *map(on_device, (ape, norm, turns))
    floats = RowFormat(RowKind.F32, dims, 64)
    plain = from_device(compress(*inputs, EPSILON, floats)).view(np.float32)
    truth = exact(values), exact(gates), first, span, exact(ape), exact(norm), exact(turns)
    assert_close(plain, REFERENCE.compress(*truth, EPSILON, floats).view(np.float32))
    for kind in KV_KINDS:
        format = RowFormat(kind, dims, 64)
        assert_same_bits(from_device(compress(*inputs, EPSILON, format)), encode_rows(plain, format))


def test_a_window_does_not_depend_on_the_others():
    draw, format = Draw.seeded(2), RowFormat(RowKind.F32, 64, 16)
    values, gates, turns = draw.floats(40, 128), draw.floats(40, 128), draw.turns(10, 16)
    rest = on_device(draw.floats(4, 128)), on_device(draw.floats(64))
    inputs = on_device(values), on_device(gates), 0
    whole = from_device(compress(*inputs, Groups(0, 10, 4), *rest, on_device(turns), EPSILON, format))
    for group in range(10):
        own = on_device(turns[group : group + 1])
        out = from_device(compress(*inputs, Groups(group, group + 1, 4), *rest, own, EPSILON, format))
        assert_same_bits(out, whole[group : group + 1])


def test_compress_without_a_finished_group_is_empty():
    draw, format = Draw.seeded(0), RowFormat(RowKind.PACKED_KV_F16, 64, 16)
    x, rest = on_device(draw.floats(3, 128)), map(on_device, (draw.floats(4, 128), draw.floats(64), draw.turns(0, 16)))
    assert compress(x, x, 0, Groups(0, 0, 4), *rest, EPSILON, format).shape == (0, format.row_bytes)
