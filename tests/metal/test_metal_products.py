"""Products on Metal, run on the CPU, against the reference in float64."""

import numpy as np
import pytest

from metal.cases import kernels, needs_compiler, on_mlx  # noqa: F401
from ops.cases import REFERENCE, Draw, assert_close, assert_same_bits, exact, tensor
from ops.quantised import TYPES, random_tensor
from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.metal import products
from whitedwarf.ops.mlx_twins.blocks import weight_of

pytestmark = [pytest.mark.mlx, needs_compiler]
KERNELS = [
    *((type, 3, 1, "products_few") for type in TYPES),
    (GgmlType.Q8_0, 1, 2, "products_few"),
    (GgmlType.Q8_0, 35, 2, "products_many"),
    (GgmlType.IQ2_XXS, 16, 1, "products_many"),
]


@pytest.mark.parametrize(("type", "n", "groups", "kernel"), KERNELS)
def test_products(kernels, type, n, groups, kernel):  # noqa: F811
    draw = Draw.seeded(n)
    stored = random_tensor(type, (groups * 75, 1280), draw.rng)  # more runs than lanes
    truth, x = REFERENCE.weight(stored), draw.floats(n, groups * 1280)
    ours = np.array(products.grouped_linear(on_mlx(x), weight_of(stored), groups))
    expected = REFERENCE.grouped_linear(exact(x), truth, groups)
    magnitudes = REFERENCE.weight(tensor(np.abs(truth.values).astype(np.float32)))
    assert_close(ours, expected, 1e-6, REFERENCE.grouped_linear(np.abs(exact(x)), magnitudes, groups))
    assert kernels.launched == [f"{kernel}_{type.name.lower()}"]


def test_a_row_s_product_has_the_same_bits_in_any_company_of_few_and_of_many(kernels):  # noqa: F811
    draw = Draw.seeded(2)
    weight, x = weight_of(random_tensor(GgmlType.Q8_0, (70, 96), draw.rng)), draw.floats(50, 96)
    few = np.array(products.linear(on_mlx(x[:9]), weight))
    for first, end in ((0, 1), (3, 8)):
        assert_same_bits(np.array(products.linear(on_mlx(x[first:end]), weight)), few[first:end])
    many = np.array(products.linear(on_mlx(x), weight))
    assert_same_bits(np.array(products.linear(on_mlx(x[7:30]), weight)), many[7:30])


def test_rows_of_broken_runs_are_the_twin_s(kernels):  # noqa: F811
    draw = Draw.seeded(3)
    stored, x = tensor(draw.floats(7, 50)), draw.floats(2, 50)
    ours = np.array(products.linear(on_mlx(x), weight_of(stored)))
    assert_close(ours, REFERENCE.linear(exact(x), REFERENCE.weight(stored)), 1e-5)
    assert kernels.launched == []
