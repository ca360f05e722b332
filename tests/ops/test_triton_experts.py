"""Triton's experts against the reference."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from ops.cases import REFERENCE, Draw, assert_close, exact  # noqa: E402
from ops.quantised import random_tensor  # noqa: E402
from ops.torch_cases import from_device, on_device  # noqa: E402
from whitedwarf.gguf.types import GgmlType  # noqa: E402
from whitedwarf.ops.base import ExpertWeights  # noqa: E402
from whitedwarf.ops.triton import experts_many, products  # noqa: E402
from whitedwarf.ops.triton.picks import sort_picks  # noqa: E402
from whitedwarf.ops.twins.planes import take_in  # noqa: E402
from whitedwarf.ops.twins.products import Block  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NUM_EXPERTS, NUM_USED = 6, 3
TWO_PRODUCTS = 9e-3  # of bf16, one on top of the other: each is allowed 6e-3
QUANTS = {
    "q2": (GgmlType.IQ2_XXS, GgmlType.Q2_K),
    "q4": (GgmlType.Q4_K, GgmlType.Q4_K),
    "q8": (GgmlType.Q8_0, GgmlType.Q8_0),
    "mxfp4": (GgmlType.MXFP4, GgmlType.MXFP4),
    "f16": (GgmlType.F16, GgmlType.BF16),
}


def to(values: np.ndarray) -> torch.Tensor:
    return on_device(values).to(DEVICE)


def blocks(draw: Draw, gate: GgmlType, down: GgmlType, stack: tuple[int, ...], limit: float):
    """The same SwiGLU block for torch and for the reference, of different widths."""
    shapes = ((gate, 256, 512), (gate, 256, 512), (down, 512, 256))
    tensors = [random_tensor(type, (*stack, *shape), draw.rng) for type, *shape in shapes]
    mine = Block(*(take_in(tensor, DEVICE) for tensor in tensors), limit)
    return mine, ExpertWeights(*(REFERENCE.weight(tensor) for tensor in tensors), limit)


def picks(draw: Draw, n: int, kind: str) -> np.ndarray:
    match kind:
        case "one":  # all rows pick one and the same expert first, then any
            picked = draw.rng.permuted(np.tile(np.arange(1, NUM_EXPERTS), (n, 1)), axis=1)[:, :NUM_USED]
            picked[:, 0] = 0
        case "same":
            picked = np.tile(draw.rng.permutation(NUM_EXPERTS)[:NUM_USED], (n, 1))
        case _:
            picked = draw.rng.permuted(np.tile(np.arange(NUM_EXPERTS), (n, 1)), axis=1)[:, :NUM_USED]
    return picked.astype(np.int32)


def check(quant: str, n: int, kind: str, limit: float, tolerance: float, is_moved=False, has_shared=True) -> None:
    draw = Draw.seeded(n)
    routed = blocks(draw, *QUANTS[quant], (NUM_EXPERTS,), limit)
    shared = blocks(draw, GgmlType.Q8_0, GgmlType.Q8_0, (), limit) if has_shared else (None, None)
    x, shares = draw.floats(n, 512) / 16, np.abs(draw.floats(n, NUM_USED))
    picked = picks(draw, n, kind)
    slots = draw.rng.permutation(NUM_EXPERTS).astype(np.int32) if is_moved else None
    own = picked if slots is None else slots[picked]
    expected = REFERENCE.experts(exact(x), own, exact(shares), routed[1], shared[1])
    given = None if slots is None else to(slots)
    output = products.experts(to(x), to(picked), to(shares), routed[0], shared[0], given)
    assert_close(from_device(output), expected, tolerance)


@pytest.mark.parametrize(("quant", "n"), [("q2", 1), ("q4", 3), ("q8", 2), ("mxfp4", 1), ("f16", 2)])
def test_experts_of_few_rows(quant, n):
    check(quant, n, "any", 10.0, 1e-5)


@pytest.mark.parametrize(("kind", "limit"), [("one", 1.0), ("same", float("inf"))])
def test_rows_that_pick_the_same_experts(kind, limit):
    check("q2", 5, kind, limit, 1e-5)


def test_experts_in_slots():
    check("mxfp4", 2, "any", 10.0, 1e-5, is_moved=True)


def test_experts_without_a_shared_one():
    check("q4", 1, "any", 10.0, 1e-5, has_shared=False)


@pytest.mark.parametrize(("quant", "n", "kind"), [("q2", 17, "any"), ("mxfp4", 16, "same"), ("q4", 40, "one")])
def test_experts_of_many_rows(quant, n, kind):
    check(quant, n, kind, 10.0, TWO_PRODUCTS, is_moved=True)


def test_experts_with_many_rows_each():
    check("q8", 64, "any", 10.0, TWO_PRODUCTS)


def test_experts_of_many_rows_without_a_shared_one_in_parts(monkeypatch):
    monkeypatch.setattr(experts_many, "MOST_ROWS", 20)
    check("f16", 33, "same", float("inf"), TWO_PRODUCTS, has_shared=False)


@pytest.mark.parametrize(("n", "k", "num_places", "block_rows"), [(1, 1, 1, 16), (40, 6, 9, 16), (700, 3, 300, 32)])
def test_sorted_picks(n, k, num_places, block_rows):
    rng = np.random.default_rng(n)
    picked, slots = rng.integers(0, num_places, (n, k)).astype(np.int32), rng.permutation(num_places).astype(np.int32)
    result = sort_picks(to(picked), to(slots), num_places, block_rows)
    places = slots[picked.reshape(-1)]
    np.testing.assert_array_equal(from_device(result.order), np.argsort(places, kind="stable"))
    firsts, ends = from_device(result.firsts), from_device(result.ends)
    taken = []
    for place, first in zip(from_device(result.places)[: result.most_blocks], firsts, strict=False):
        if place >= 0:
            block = from_device(result.order)[first : min(first + block_rows, ends[place])]
            assert (places[block] == place).all()
            taken.extend(block)
    assert sorted(taken) == list(range(n * k))
    assert (from_device(result.places)[result.most_blocks :] == -1).all()
