"""Products in plain torch against the reference."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from ops.cases import EPSILON, REFERENCE, Draw, assert_close, exact  # noqa: E402
from ops.quantised import TYPES, random_tensor  # noqa: E402
from whitedwarf.gguf.types import GgmlType  # noqa: E402
from whitedwarf.ops.base import ExpertWeights  # noqa: E402
from whitedwarf.ops.reference import ReferenceWeight  # noqa: E402
from whitedwarf.ops.twins import products  # noqa: E402
from whitedwarf.ops.twins.planes import take_in  # noqa: E402

seeds = st.integers(0, 2**32 - 1)
types = st.sampled_from(TYPES)


def torch_of(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


@settings(max_examples=40)
@given(types, seeds, st.integers(1, 18), st.integers(1, 3), st.integers(1, 9), st.sampled_from([1, 2, 4]))
def test_products(type, seed, n, blocks, rows, groups):
    draw = Draw.seeded(seed)
    tensor = random_tensor(type, (groups * rows, 256 * blocks), draw.rng)
    weight, reference = take_in(tensor, "cpu"), REFERENCE.weight(tensor)
    magnitudes = ReferenceWeight(np.abs(reference.values))
    x = draw.floats(n, groups * 256 * blocks)
    expected = REFERENCE.grouped_linear(exact(x), reference, groups)
    size = REFERENCE.grouped_linear(np.abs(exact(x)), magnitudes, groups)
    assert_close(products.grouped_linear(torch_of(x), weight, groups).numpy(), expected, 1e-6, size)
    part = x[:, : 256 * blocks]
    size = REFERENCE.linear(np.abs(exact(part)), magnitudes)
    assert_close(products.linear(torch_of(part), weight).numpy(), REFERENCE.linear(exact(part), reference), 1e-6, size)
    ids = draw.rng.integers(0, groups * rows, n).astype(np.int32)
    np.testing.assert_array_equal(products.embed(weight, torch_of(ids)).numpy(), tensor.floats()[ids])


@settings(max_examples=20)
@given(types, types, seeds, st.integers(1, 5), st.booleans())
def test_several_products_of_one_input(first, second, seed, n, is_normed):
    draw = Draw.seeded(seed)
    tensors = [random_tensor(first, (5, 512), draw.rng), random_tensor(second, (3, 512), draw.rng)]
    x, norm = draw.floats(n, 512) * 3, draw.floats(512) if is_normed else None
    given_norm = None if norm is None else torch_of(norm)
    outputs = products.linears(torch_of(x), [take_in(t, "cpu") for t in tensors], given_norm, EPSILON)
    weights, exact_norm = [REFERENCE.weight(t) for t in tensors], None if norm is None else exact(norm)
    for output, expected in zip(outputs, REFERENCE.linears(exact(x), weights, exact_norm, EPSILON), strict=True):
        assert_close(output.numpy(), expected)


@settings(max_examples=20)
@given(types, types, seeds, st.integers(1, 6), st.sampled_from([1.0, 10.0, float("inf")]), st.booleans())
def test_experts(gate_type, down_type, seed, n, limit, is_moved):
    draw = Draw.seeded(seed)
    routed = blocks(draw, gate_type, down_type, (5,), limit)
    shared = blocks(draw, GgmlType.Q8_0, GgmlType.Q8_0, (), limit)
    x, shares = draw.floats(n, 256) / 16, np.abs(draw.floats(n, 3))
    picked = draw.rng.integers(0, 5, (n, 3)).astype(np.int32)
    slots = draw.rng.permutation(5).astype(np.int32) if is_moved else None
    own = picked if slots is None else slots[picked]
    expected = REFERENCE.experts(exact(x), own, exact(shares), routed[1], shared[1])
    given_slots = None if slots is None else torch_of(slots)
    inputs = torch_of(x), torch_of(picked), torch_of(shares)
    assert_close(products.experts(*inputs, routed[0], shared[0], given_slots).numpy(), expected)
    alone = REFERENCE.experts(exact(x), own, exact(shares), routed[1])
    assert_close(products.experts(*inputs, routed[0], None, given_slots).numpy(), alone)


def blocks(draw: Draw, gate: GgmlType, down: GgmlType, stack: tuple[int, ...], limit: float):
    """The same SwiGLU block for torch and for the reference."""
    tensors = [random_tensor(type, (*stack, 256, 256), draw.rng) for type in (gate, gate, down)]
    mine = products.Block(*(take_in(tensor, "cpu") for tensor in tensors), limit)
    return mine, ExpertWeights(*(REFERENCE.weight(tensor) for tensor in tensors), limit)


@pytest.mark.parametrize("type", TYPES)
def test_a_row_does_not_depend_on_the_others(type):
    draw = Draw.seeded(0)
    weight = take_in(random_tensor(type, (33, 512), draw.rng), "cpu")
    x = torch_of(draw.floats(17, 512))
    together = products.linear(x, weight)
    for i, row in enumerate(x):
        assert torch.equal(products.linear(row[None], weight)[0], together[i])


def test_a_matrix_decoded_in_pieces_gives_the_same(monkeypatch):
    draw = Draw.seeded(0)
    weight = take_in(random_tensor(GgmlType.Q8_0, (10, 64), draw.rng), "cpu")
    x = torch_of(draw.floats(3, 64))
    whole = products.linear(x, weight)
    monkeypatch.setattr(products, "DECODED_VALUES", 64 * 3)
    np.testing.assert_allclose(products.linear(x, weight).numpy(), whole.numpy(), rtol=1e-5, atol=1e-5)


def test_the_best_id_is_the_lowest_among_equals():
    logits = torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [-5.0, -7.0, -5.0, -1.0]])
    assert products.best_ids(logits).tolist() == [1, 0, 3]
    assert products.best_ids(logits).dtype == torch.int32
