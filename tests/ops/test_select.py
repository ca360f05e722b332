"""Choosing a backend by name."""

import builtins
import sys

import pytest

from whitedwarf._native import Kernels
from whitedwarf.errors import BackendError, UsageError
from whitedwarf.ops import select
from whitedwarf.ops.gpus import Usable
from whitedwarf.ops.select import BACKENDS, LEVEL_VARIABLE, best_backend, describe_backends, find_cards, make_ops


def described(name):
    (info,) = [info for info in describe_backends() if info.name == name]
    return info


@pytest.fixture(autouse=True)
def no_forced_level(monkeypatch):
    monkeypatch.delenv(LEVEL_VARIABLE, raising=False)


@pytest.fixture
def no_native_module(monkeypatch):
    real = builtins.__import__

    def without_native(name, *rest):
        if name in ("whitedwarf._native", "whitedwarf.ops.cpu"):
            raise ModuleNotFoundError("No module named 'whitedwarf._native'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_native)


@pytest.mark.parametrize(("asked", "got"), [("auto", "cpu"), ("cpu", "cpu"), ("reference", "reference")])
def test_backends_are_chosen_by_name(asked, got):
    assert make_ops(asked, threads=1).name == got


def test_an_unknown_backend_names_those_that_exist():
    with pytest.raises(UsageError, match=r"backend must be auto, cuda or rocm or cpu or .*; got 'gpu'"):
        make_ops("gpu")


def test_an_impossible_number_of_threads_is_a_usage_error():
    with pytest.raises(UsageError, match="threads is 0"):
        make_ops("cpu", threads=-1)


@pytest.mark.parametrize("level", Kernels.available_levels())
def test_the_environment_chooses_the_level(level, monkeypatch):
    monkeypatch.setenv(LEVEL_VARIABLE, level)
    assert make_ops("cpu", threads=1).level == level
    assert described("cpu").level == level


def test_a_level_that_is_not_here_is_refused_with_those_that_are(monkeypatch):
    monkeypatch.setenv(LEVEL_VARIABLE, "avx1024")
    with pytest.raises(UsageError, match=r"level avx1024 .*choose auto or one of: .*WHITEDWARF_CPU_LEVEL is set"):
        make_ops("cpu", threads=1)
    assert not described("cpu").is_available


def test_every_backend_is_described():
    assert tuple(info.name for info in describe_backends()) == BACKENDS
    assert all(described(name).is_available and described(name).level for name in ("cpu", "reference"))
    assert all(info.reason for info in describe_backends())


def test_mlx_is_described_as_not_yet_run_on_a_mac():
    pytest.importorskip("mlx.core")
    [mlx] = [info for info in describe_backends() if info.name == "mlx"]
    assert mlx.is_available
    assert "not yet run on a Mac" in mlx.reason
    assert make_ops("mlx").name == "mlx"


def test_without_mlx_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "whitedwarf.ops.mlx_ops", None)  # importing it fails
    with pytest.raises(BackendError, match=r"backend mlx is not available: .*whitedwarf\[mlx\]"):
        make_ops("mlx")
    [mlx] = [info for info in describe_backends() if info.name == "mlx"]
    assert not mlx.is_available
    assert "whitedwarf[mlx]" in mlx.reason


def test_without_the_native_module_the_message_says_how_to_build_it(no_native_module):
    with pytest.raises(BackendError, match=r"backend cpu is not available: .*make run"):
        make_ops("cpu")
    assert not described("cpu").is_available
    assert "make run" in described("cpu").reason
    assert described("reference").is_available


def test_auto_is_a_card_where_files_tell_of_a_usable_one(monkeypatch):
    monkeypatch.setattr(select, "usable", lambda kind: Usable(kind == "rocm", "an AMD card is here"))
    assert best_backend() == "rocm"
    monkeypatch.setattr(select, "usable", lambda kind: Usable(False, "no card here"))
    assert best_backend() == "cpu"


def test_a_card_without_pytorch_is_told_in_doctor(monkeypatch):
    reason = "an NVIDIA card is here but PyTorch is not: pip install 'whitedwarf[cuda]'"
    monkeypatch.setattr(select, "usable", lambda kind: Usable(False, reason))
    assert (described("cuda").is_available, described("cuda").reason) == (False, reason)


def test_a_card_whose_driver_does_not_answer_is_told(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(select, "usable", lambda kind: Usable(True, "an NVIDIA card is here (/dev/nvidia7)"))
    cuda = described("cuda")
    assert not cuda.is_available
    assert "(/dev/nvidia7)" in cuda.reason
    assert "check the driver with nvidia-smi" in cuda.reason


@pytest.mark.parametrize("backend", ["cuda", "rocm", "torch"])
def test_without_pytorch_a_backend_on_cards_says_how_to_get_it(monkeypatch, backend):
    monkeypatch.setattr(select, "find_spec", lambda name: None)
    for ask in (lambda: make_ops(backend), lambda: find_cards(backend, 1, 1)):
        with pytest.raises(
            BackendError, match=rf"backend {backend} is not available: PyTorch is not installed.*pip install"
        ):
            ask()
    assert not described(backend).is_available


def test_plain_pytorch_is_a_card_made_of_this_computer():
    pytest.importorskip("torch")
    assert make_ops("torch").name == "torch"
    (card,) = find_cards("torch", 100, 80)
    assert (card.device, card.total_bytes, card.free_bytes, card.shares_host_memory) == ("cpu", 100, 80, True)
    (card,) = find_cards("torch", 100, 80, 50)
    assert (card.budget_bytes, card.shares_host_memory) == (50, False)
