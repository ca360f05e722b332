"""Choosing a backend by name."""

import builtins
import sys

import pytest

from whitedwarf._native import Kernels
from whitedwarf.errors import BackendError, UsageError
from whitedwarf.ops.select import BACKENDS, LEVEL_VARIABLE, describe_backends, make_ops


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
    with pytest.raises(UsageError, match="backend must be auto, cpu or mlx or reference; got 'cuda'"):
        make_ops("cuda")


def test_an_impossible_number_of_threads_is_a_usage_error():
    with pytest.raises(UsageError, match="threads is 0"):
        make_ops("cpu", threads=-1)


@pytest.mark.parametrize("level", Kernels.available_levels())
def test_the_environment_chooses_the_level(level, monkeypatch):
    monkeypatch.setenv(LEVEL_VARIABLE, level)
    assert make_ops("cpu", threads=1).level == level
    assert describe_backends()[0].level == level


def test_a_level_that_is_not_here_is_refused_with_those_that_are(monkeypatch):
    monkeypatch.setenv(LEVEL_VARIABLE, "avx1024")
    with pytest.raises(UsageError, match=r"level avx1024 .*choose auto or one of: .*WHITEDWARF_CPU_LEVEL is set"):
        make_ops("cpu", threads=1)
    assert not describe_backends()[0].is_available


def test_every_backend_is_described():
    described = describe_backends()
    assert tuple(info.name for info in described) == BACKENDS
    assert all(info.is_available and info.level for info in described if info.name != "mlx")


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
    cpu, _, reference = describe_backends()
    assert not cpu.is_available
    assert "make run" in cpu.reason
    assert reference.is_available
