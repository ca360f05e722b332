"""Experts that come from the disk to a card, through host memory: the bits of a model that lies there as a whole."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fakes.faulty_files import FaultyFiles  # noqa: E402
from model.streamed_models import opened_ops  # noqa: E402
from model.test_torch_plans import plain, run, slots_for  # noqa: E402
from oracle.fixtures import oracle_file  # noqa: E402
from whitedwarf.errors import ModelReadError  # noqa: E402
from whitedwarf.gguf.reader import GgufFile, open_gguf  # noqa: E402
from whitedwarf.model.loading import load_model  # noqa: E402
from whitedwarf.model.transformer import Transformer  # noqa: E402
from whitedwarf.ops.select import Misses, make_planned  # noqa: E402
from whitedwarf.ops.streamed_expert_ops import StreamedExpertOps  # noqa: E402
from whitedwarf.ops.torch_experts import HostExperts  # noqa: E402
from whitedwarf.weights.checked import check_model  # noqa: E402
from whitedwarf.weights.placement import Mode, Placement, Share, Slots  # noqa: E402


@pytest.fixture(scope="module")
def tiny() -> Iterator[GgufFile]:
    with open_gguf(oracle_file("tinyA/tiny-mxfp4.gguf")) as gguf:
        yield gguf


@pytest.fixture(scope="module")
def expected(tiny: GgufFile) -> np.ndarray:
    return run(plain(tiny))


@contextmanager
def behind_a_card(
    gguf: GgufFile, on_card: int, in_memory: int, misses: Misses = "copy", files: FaultyFiles | None = None
) -> Iterator[tuple[Transformer, HostExperts, StreamedExpertOps]]:
    """Plain torch as the card, with so many slots; the store has others."""
    slots: list[Slots] = slots_for(gguf, on_card)
    share = Share("cpu", "a card", 0, check_model(gguf).hp.num_layers, 0, 0, 0, 0, 0, tuple(slots))
    with opened_ops(gguf, in_memory, quality=True, files=files) as streamed:
        planned = make_planned("torch", Placement(Mode.HOST_EXPERTS, (share,)), 1, misses, streamed)
        (host,) = planned.host_experts
        yield load_model(gguf, planned.ops).transformer, host, streamed


@pytest.mark.parametrize(("on_card", "in_memory"), [(3, 1), (3, 12), (12, 3), (36, 36)])
def test_the_bits_of_the_whole_model(tiny: GgufFile, expected: np.ndarray, on_card: int, in_memory: int) -> None:
    with behind_a_card(tiny, on_card, in_memory) as (model, host, streamed):
        np.testing.assert_array_equal(run(model), expected)
        traffic = streamed.store.traffic
        assert host.traffic.loads <= traffic.hits + traffic.misses  # with those that were measured
        assert traffic.bytes_read > 0


def test_what_lies_on_the_card_is_not_asked_for_again(tiny: GgufFile, expected: np.ndarray) -> None:
    with behind_a_card(tiny, 36, 4) as (model, host, streamed):
        run(model)
        host_loads, before = host.traffic.loads, streamed.store.traffic
        np.testing.assert_array_equal(run(model), expected)
        assert (host.traffic.loads, streamed.store.traffic) == (host_loads, before)


def test_the_cpu_computes_from_the_store(tiny: GgufFile, expected: np.ndarray) -> None:
    with behind_a_card(tiny, 3, 6, misses="cpu") as (model, host, _):
        actual = run(model)
        assert host.host_rows > 0
        assert np.linalg.norm(actual - expected) <= 1e-4 * np.linalg.norm(expected)


def test_a_profile_s_experts_come_through_the_store(tiny: GgufFile, expected: np.ndarray) -> None:
    with behind_a_card(tiny, 8, 8) as (model, host, streamed):
        host.prepare()
        host.cache.heat[0, 1] = host.cache.heat[2, 3] = host.cache.heat[2, 0] = 3
        before = streamed.store.traffic
        assert host.preload() == 3
        assert streamed.store.traffic.hits + streamed.store.traffic.misses - before.hits - before.misses == 3
        np.testing.assert_array_equal(run(model), expected)


@pytest.mark.parametrize("misses", ["copy", "cpu"])
def test_a_disk_that_fails_is_one_error_and_the_next_pass_is_right(tiny: GgufFile, misses: Misses) -> None:
    def failing(offset_bytes: int, size_bytes: int) -> int | None:
        raise OSError(5, "Input/output error")

    files = FaultyFiles()
    with behind_a_card(tiny, 3, 2, misses, files) as (model, host, _):
        host.prepare()
        expected = run(model)
        for _ in range(2):
            files.fault = failing
            with pytest.raises(ModelReadError, match="Input/output error"):
                run(model)
            files.fault = None
            np.testing.assert_allclose(run(model), expected, rtol=1e-4, atol=1e-4)
        files.fault = failing
        host.cache.heat[:] = 1
        for layer, expert in np.ndindex(host.cache.heat.shape):
            host.cache.forget(layer, expert)
        with pytest.raises(ModelReadError):
            host.preload()
        assert host.cache.num_held == 0
