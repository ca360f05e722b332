"""Chooses the backend. Importing this module is cheap; a backend is imported when it is asked for or described."""

import os
from dataclasses import dataclass

from whitedwarf.errors import BackendError, UsageError
from whitedwarf.ops.base import Ops

BACKENDS = ("cpu", "mlx", "reference")  # best first
LEVEL_VARIABLE = "WHITEDWARF_CPU_LEVEL"  # an instruction set by name, for tests and diagnosis; unset = the best here
HOW_TO_BUILD = "the native module is not built; run `make run` (or `pip install -e .`) in the source folder"
HOW_TO_GET_MLX = "MLX is not installed: pip install 'whitedwarf[mlx]'"


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """One line of `whitedwarf doctor`."""

    name: str
    is_available: bool
    reason: str  # why it is, or is not, available
    level: str  # what of the machine it uses; empty if unavailable


def make_ops(backend: str = "auto", threads: int = 0, quality: bool = False) -> Ops:
    """The asked backend, or the best one here. threads 0 = all cores; quality = activations stay floats.

    UsageError names the backends there are, or the CPU levels if WHITEDWARF_CPU_LEVEL names none of them; BackendError
    says what is missing.
    """
    match backend:
        case "auto" | "cpu":
            return _cpu(threads, quality)
        case "mlx":
            return _mlx()
        case "reference":
            from whitedwarf.ops.reference import ReferenceOps

            return ReferenceOps()
        case _:
            raise UsageError(f"backend must be auto, {' or '.join(BACKENDS)}; got {backend!r}")


def describe_backends() -> list[BackendInfo]:
    """Every backend this version knows, best first."""
    reference = BackendInfo("reference", True, "numpy: slow, the definition of every result", "float64")
    return [_describe_cpu(), _describe_mlx(), reference]


def level() -> str:
    """The CPU level that the environment asks for, or auto."""
    return os.environ.get(LEVEL_VARIABLE) or "auto"


def _cpu(threads: int, quality: bool) -> Ops:
    try:
        from whitedwarf.ops.cpu import CpuOps
    except ImportError as error:
        raise BackendError(f"backend cpu is not available: {HOW_TO_BUILD} ({error})") from error
    try:
        return CpuOps(threads, quality, level())
    except ValueError as error:
        forced = f" ({LEVEL_VARIABLE} is set)" if level() != "auto" else ""
        raise UsageError(f"{error}{forced}") from error
    except RuntimeError as error:
        raise BackendError(f"{threads or 'the'} threads could not be started: {error}; ask for fewer") from error


def _describe_cpu() -> BackendInfo:
    try:
        from whitedwarf._native import Kernels
    except ImportError as error:
        return BackendInfo("cpu", False, f"{HOW_TO_BUILD} ({error})", "")
    levels = Kernels.available_levels()
    reason = f"this CPU runs {', '.join(levels)}"
    if level() == "auto":
        return BackendInfo("cpu", True, reason, levels[-1])
    is_available = level() in levels
    return BackendInfo("cpu", is_available, f"{reason}; {LEVEL_VARIABLE} asks for {level()}", level() * is_available)


def _mlx() -> Ops:
    try:
        from whitedwarf.ops.mlx_ops import MlxOps
    except ImportError as error:
        raise BackendError(f"backend mlx is not available: {HOW_TO_GET_MLX} ({error})") from error
    return MlxOps()


def _describe_mlx() -> BackendInfo:
    try:
        from whitedwarf.ops.mlx_ops import described
    except ImportError as error:
        return BackendInfo("mlx", False, f"{HOW_TO_GET_MLX} ({error})", "")
    return BackendInfo("mlx", True, *described())
