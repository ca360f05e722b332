"""Experts in host memory behind a card with few slots: the same outputs, and the books of the traffic."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fakes.torch_card import CountedCard  # noqa: E402
from ops.cases import Draw, assert_close  # noqa: E402
from ops.quantised import random_tensor  # noqa: E402
from whitedwarf.errors import BackendError, OutOfMemoryError  # noqa: E402
from whitedwarf.gguf.types import GgmlType  # noqa: E402
from whitedwarf.ops.base import ExpertWeights  # noqa: E402
from whitedwarf.ops.cpu import CpuOps  # noqa: E402
from whitedwarf.ops.torch_experts import HOST_ROWS, HostExperts, Measured  # noqa: E402
from whitedwarf.ops.torch_slots import ExpertParts  # noqa: E402
from whitedwarf.ops.twins import products  # noqa: E402
from whitedwarf.ops.twins.planes import take_in  # noqa: E402
from whitedwarf.weights.placement import Slots  # noqa: E402
from whitedwarf.weights.tensors import Tensor as FileTensor  # noqa: E402

E, K, D, F, LAYERS = 6, 2, 256, 256, 3
Q2 = (GgmlType.IQ2_XXS, GgmlType.IQ2_XXS, GgmlType.Q2_K)
FOUR = (GgmlType.MXFP4, GgmlType.MXFP4, GgmlType.MXFP4)
LIMIT = 7.0


@dataclass
class Layers:
    """Random layers twice: all on the device, and left where they are."""

    files: list[ExpertParts]
    shared: products.Block

    @classmethod
    def drawn(cls, draw: Draw, *types: tuple[GgmlType, ...]) -> "Layers":
        shapes = (E, F, D), (E, F, D), (E, D, F)
        files = [
            ExpertParts(
                *(
                    named(index, role, random_tensor(kind, shape, draw.rng))
                    for role, kind, shape in zip(("gate", "up", "down"), layer, shapes, strict=True)
                )
            )
            for index, layer in enumerate(types)
        ]
        shared = [take_in(random_tensor(GgmlType.Q8_0, shape[1:], draw.rng), "cpu") for shape in shapes]
        return cls(files, products.Block(*shared, LIMIT))

    def resident(self, layer: int, x, picked, shares):
        block = products.Block(*(take_in(tensor, "cpu") for tensor in self.files[layer].tensors), LIMIT)
        return products.experts(x, picked, shares, block, self.shared)

    def behind(self, slots: int, misses="copy", cpu=None) -> tuple[HostExperts, list[ExpertWeights]]:
        sizes = sorted({part.size_bytes for part in self.files})
        host = HostExperts("cpu", [Slots(size, slots) for size in sizes], products.experts, cpu, misses)
        stacks = [ExpertWeights(*(host.take(tensor) for tensor in part.tensors), LIMIT) for part in self.files]
        host.prepare()
        return host, stacks


def named(layer: int, role: str, tensor: FileTensor) -> FileTensor:
    return replace(tensor, name=f"blk.{layer}.ffn_{role}_exps.weight")


def a_pass(draw: Draw, n: int):
    x = torch.from_numpy(draw.floats(n, D) / 16)
    picked = np.stack([draw.rng.permutation(E)[:K] for _ in range(n)]).astype(np.int32)
    return x, torch.from_numpy(picked), torch.from_numpy(np.abs(draw.floats(n, K)))


@pytest.mark.parametrize("slots", [K, 5, LAYERS * E])
@pytest.mark.parametrize("types", [(Q2, Q2, Q2), (Q2, FOUR, Q2)], ids=["one size", "two sizes"])
def test_copied_experts_give_the_bits_of_a_model_that_lies_there_as_a_whole(types, slots):
    draw = Draw.seeded(slots)
    layers = Layers.drawn(draw, *types)
    host, stacks = layers.behind(slots)
    for n in (1, 3, 18, 1, 2, 17, 1):
        for layer in range(LAYERS):
            x, picked, shares = a_pass(draw, n)
            expected = layers.resident(layer, x, picked, shares)
            assert torch.equal(host.experts(x, picked, shares, stacks[layer], layers.shared), expected)
    assert host.traffic.misses > 0
    assert host.traffic.loaded_bytes >= host.traffic.loads * min(part.size_bytes for part in layers.files)


def test_without_a_shared_expert_too():
    draw = Draw.seeded(0)
    layers = Layers.drawn(draw, FOUR)
    host, (stack,) = layers.behind(2)
    x, picked, shares = a_pass(draw, 17)
    block = products.Block(*(take_in(tensor, "cpu") for tensor in layers.files[0].tensors), LIMIT)
    assert torch.equal(host.experts(x, picked, shares, stack, None), products.experts(x, picked, shares, block))


def test_what_is_there_is_not_copied_again():
    draw = Draw.seeded(1)
    layers = Layers.drawn(draw, Q2)
    host, (stack,) = layers.behind(E)
    for _ in range(4):
        host.experts(*a_pass(draw, 12), stack, layers.shared)
    assert host.traffic.loads == E
    assert host.traffic.hits == 3 * E
    assert host.traffic.loaded_bytes == E * layers.files[0].size_bytes
    assert host.traffic.hit_rate == 0.75


@pytest.mark.parametrize("n", [1, HOST_ROWS, HOST_ROWS + 1])
def test_the_cpu_computes_what_is_missing(n):
    draw = Draw.seeded(2)
    layers = Layers.drawn(draw, Q2, FOUR)
    host, stacks = layers.behind(3, "cpu", CpuOps(threads=1, quality=True))
    for _ in range(5):
        for layer, stack in enumerate(stacks):
            inputs = a_pass(draw, n)
            got = host.experts(*inputs, stack, layers.shared)
            assert_close(got.numpy(), layers.resident(layer, *inputs).numpy())
    assert (host.host_rows > 0) == (n <= HOST_ROWS)


def test_the_same_history_gives_the_same_bits_also_with_the_cpu():
    draw = Draw.seeded(3)
    layers = Layers.drawn(draw, Q2, Q2)
    passes = [a_pass(draw, n) for n in (1, 3, 1, 8, 1, 17, 1)]

    def play():
        host, stacks = layers.behind(3, "cpu", CpuOps(threads=1, quality=True))
        return [host.experts(*inputs, stack, layers.shared) for inputs in passes for stack in stacks]

    assert all(torch.equal(one, other) for one, other in zip(play(), play(), strict=True))


def test_hot_experts_come_to_the_card_though_the_cpu_computes():
    draw = Draw.seeded(4)
    layers = Layers.drawn(draw, Q2)
    host, (stack,) = layers.behind(K, "cpu", CpuOps(threads=1, quality=True))
    inputs = a_pass(draw, 1)
    for _ in range(4):
        host.experts(*inputs, stack, layers.shared)
    before = host.host_rows
    host.experts(*inputs, stack, layers.shared)
    assert host.host_rows == before
    assert {host.cache.slot(0, int(expert)) for expert in inputs[1].flatten()} == {0, 1}


def test_the_faster_way_is_taken():
    layers = Layers.drawn(Draw.seeded(5), Q2)
    host, _ = layers.behind(3, "auto", CpuOps(threads=1, quality=True))
    assert host.measured is not None
    assert host.measured.cpu_ms is not None
    assert host.computes_misses == (host.measured.cpu_ms < host.measured.copy_ms)
    host.measured = Measured(2.0, 1.0)
    assert host.computes_misses
    assert host.describe() == (
        "an expert is copied in 2.00 ms or computed for a row by the CPU in 1.00 ms: misses are computed by the CPU "
        "while few rows need them"
    )
    host.measured = Measured(1.0, 2.0)
    assert not host.computes_misses
    assert host.describe().endswith("misses are copied")


def test_without_the_cpu_backend_misses_are_copied_or_that_is_refused():
    layers = Layers.drawn(Draw.seeded(6), Q2)
    host, _ = layers.behind(3, "auto")
    assert not host.computes_misses
    assert "no CPU backend" in host.describe()
    with pytest.raises(BackendError, match="its native module is not built"):
        layers.behind(3, "cpu")


def test_a_profile_s_experts_are_there_before_anybody_asks():
    draw = Draw.seeded(7)
    layers = Layers.drawn(draw, Q2, Q2)
    host, stacks = layers.behind(4)
    host.cache.heat[0, 1] = host.cache.heat[1, 5] = 3
    assert host.preload() == 2
    x, _, shares = a_pass(draw, 1)
    picked = torch.tensor([[1, 5]], dtype=torch.int32)
    for layer, stack in enumerate(stacks):
        expected = layers.resident(layer, x, picked, shares)
        assert torch.equal(host.experts(x, picked, shares, stack, layers.shared), expected)
    assert host.traffic.hits == 2


def test_bytes_that_cannot_be_read_leave_no_wrong_expert_behind():
    draw = Draw.seeded(8)
    layers = Layers.drawn(draw, Q2)
    host, (stack,) = layers.behind(E)
    inputs = a_pass(draw, 4)
    good = host._upload
    calls = []

    def failing(*args):
        calls.append(args)
        if len(calls) == 2:
            raise OSError("the disk is gone")
        good(*args)

    host._upload = failing
    with pytest.raises(OSError, match="gone"):
        host.experts(*inputs, stack, layers.shared)
    host._upload = good
    expected = layers.resident(0, *inputs)
    for _ in range(2):
        assert torch.equal(host.experts(*inputs, stack, layers.shared), expected)


@pytest.mark.parametrize("type", [GgmlType.Q6_K, GgmlType.Q3_K])
def test_types_that_devices_hold_as_f16_have_larger_slots(type):
    rng = np.random.default_rng(9)
    shapes = (E, F, D), (E, F, D), (E, D, F)
    half = type.block_bytes - 2

    def drawn(role, shape):
        blocks = rng.integers(0, 256, (int(np.prod(shape)) // 256, type.block_bytes), dtype=np.uint8)
        blocks[:, half:] = np.full((len(blocks), 1), 0.001, np.float16).view(np.uint8)
        return named(0, role, FileTensor("test", type, shape, blocks.reshape(-1)))

    part = ExpertParts(*map(drawn, ("gate", "up", "down"), shapes))
    assert part.size_bytes == 3 * F * D * 2
    layers = Layers([part], Layers.drawn(Draw.seeded(0)).shared)
    host, (stack,) = layers.behind(3)
    for n in (1, 4, 1):
        inputs = a_pass(Draw.seeded(n), n)
        assert torch.equal(host.experts(*inputs, stack, layers.shared), layers.resident(0, *inputs))


def test_the_card_s_budget_is_kept():
    draw = Draw.seeded(10)
    layers = Layers.drawn(draw, Q2, Q2, Q2)
    expert_bytes, slots = layers.files[0].size_bytes, 4
    work_bytes = 4_000_000  # decoded pieces of one matrix and the rows of a pass
    with CountedCard(slots * expert_bytes + work_bytes) as card:
        host, stacks = layers.behind(slots)
        assert card.used_bytes >= slots * expert_bytes
        for n in (1, 1, 17, 1, 3):
            for stack in stacks:
                host.experts(*a_pass(draw, n), stack, layers.shared)
        assert card.peak_bytes <= card.budget_bytes
        held = card.used_bytes
        for stack in stacks:
            host.experts(*a_pass(draw, 2), stack, layers.shared)
        assert card.used_bytes == held  # nothing stays of a pass


def test_the_made_up_card_refuses_more_than_it_has():
    with CountedCard(1000) as card:
        kept = torch.zeros(200)
        with pytest.raises(OutOfMemoryError, match="the card has 1000 bytes"):
            torch.zeros(100)
        del kept
        torch.zeros(100)
        assert card.used_bytes <= 400
