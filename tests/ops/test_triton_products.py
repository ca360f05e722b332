"""Triton's products with weights in their blocks against plain torch's and against the reference."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from ops.cases import EPSILON, REFERENCE, Draw, assert_close, exact  # noqa: E402
from ops.quantised import TYPES, random_tensor  # noqa: E402
from ops.torch_cases import from_device, on_device  # noqa: E402
from whitedwarf.gguf.types import GgmlType  # noqa: E402
from whitedwarf.ops.reference import ReferenceWeight  # noqa: E402
from whitedwarf.ops.triton import products  # noqa: E402
from whitedwarf.ops.twins.planes import take_in  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FEW, MANY = (1, 3, 15), (16, 17, 40)
TOLERANCES = dict.fromkeys(FEW, 1e-05) | dict.fromkeys(MANY, 0.006)


def to(values: np.ndarray) -> torch.Tensor:
    return on_device(values).to(DEVICE)


@pytest.mark.parametrize("n", FEW + MANY)
@pytest.mark.parametrize("type", TYPES)
def test_linear(type, n):
    draw = Draw.seeded(n)
    tensor = random_tensor(type, (70, 768), draw.rng)
    x = draw.floats(n, 768)
    expected = REFERENCE.linear(exact(x), REFERENCE.weight(tensor))
    assert_close(from_device(products.linear(to(x), take_in(tensor, DEVICE))), expected, TOLERANCES[n])


@pytest.mark.parametrize("n", FEW + MANY)
@pytest.mark.parametrize("is_normed", [False, True])
def test_several_products_of_one_input(n, is_normed):
    draw = Draw.seeded(n)
    tensors = [random_tensor(type, (rows, 512), draw.rng) for type, rows in zip(TYPES, range(33, 89, 7), strict=True)]
    x, norm = draw.floats(n, 512) * 3, draw.floats(512) if is_normed else None
    given = None if norm is None else to(norm)
    outputs = products.linears(to(x), [take_in(t, DEVICE) for t in tensors], given, EPSILON)
    weights, exact_norm = [REFERENCE.weight(t) for t in tensors], None if norm is None else exact(norm)
    for output, expected in zip(outputs, REFERENCE.linears(exact(x), weights, exact_norm, EPSILON), strict=True):
        assert_close(from_device(output), expected, TOLERANCES[n])


@pytest.mark.parametrize("n", FEW + MANY)
@pytest.mark.parametrize(("type", "groups"), [(GgmlType.Q8_0, 8), (GgmlType.Q4_K, 3), (GgmlType.F16, 2)])
def test_grouped_linear(type, groups, n):
    draw = Draw.seeded(n)
    tensor = random_tensor(type, (groups * 12, 256), draw.rng)
    x = draw.floats(n, groups * 256)
    expected = REFERENCE.grouped_linear(exact(x), REFERENCE.weight(tensor), groups)
    output = products.grouped_linear(to(x), take_in(tensor, DEVICE), groups)
    assert_close(from_device(output), expected, TOLERANCES[n])


@pytest.mark.parametrize("columns", [32, 96, 4096])
def test_rows_of_any_number_of_blocks(columns):
    draw = Draw.seeded(columns)
    tensor, x = random_tensor(GgmlType.Q8_0, (10, columns), draw.rng), draw.floats(2, columns)
    weight = REFERENCE.weight(tensor)
    size = REFERENCE.linear(np.abs(exact(x)), ReferenceWeight(np.abs(weight.values)))
    output = from_device(products.linear(to(x), take_in(tensor, DEVICE)))
    assert_close(output, REFERENCE.linear(exact(x), weight), 1e-6, size)


@pytest.mark.parametrize("type", TYPES)
def test_embed(type):
    draw = Draw.seeded(0)
    tensor = random_tensor(type, (50, 512), draw.rng)
    ids = draw.rng.integers(0, 50, 7).astype(np.int32)
    assert_close(from_device(products.embed(take_in(tensor, DEVICE), to(ids))), tensor.floats()[ids], 1e-6)


def test_the_best_id_is_the_lowest_among_equals():
    logits = np.random.default_rng(0).standard_normal((3, 9000)).astype(np.float32)
    logits[0, [8500, 4100, 77]] = 9
    logits[1], logits[2, 8999] = -1, 9
    assert products.best_ids(to(logits)).tolist() == [77, 0, 8999]
