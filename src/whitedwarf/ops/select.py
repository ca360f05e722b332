"""Chooses the backend. Importing this module is cheap; a backend is imported when it is asked for or described."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, TypeVar

from whitedwarf.errors import BackendError, UsageError
from whitedwarf.ops.base import Ops
from whitedwarf.ops.gpus import Kind, usable
from whitedwarf.weights.placement import Card, Placement

if TYPE_CHECKING:
    from whitedwarf.gguf.reader import GgufFile
    from whitedwarf.ops.streamed_expert_ops import StreamedExpertOps
    from whitedwarf.ops.torch_backend import Planned
    from whitedwarf.ops.torch_experts import HostBackend
    from whitedwarf.weights.direct_reader import DirectReader
    from whitedwarf.weights.expert_store import ExpertStore

T = TypeVar("T")
Misses = Literal["auto", "copy", "cpu"]

BACKENDS = ("cuda", "rocm", "cpu", "mlx", "torch", "reference")  # best first
ON_CARDS = ("cuda", "rocm", "torch")  # for which there is a placement
STREAMED = ("cpu", *ON_CARDS)  # that can have their experts from a disk
_CHOSEN: tuple[Kind, ...] = ("cuda", "rocm")  # what `auto` takes where it can
LEVEL_VARIABLE = "WHITEDWARF_CPU_LEVEL"  # an instruction set by name, for tests and diagnosis; unset = the best here
HOW_TO_BUILD = "the native module is not built; run `make run` (or `pip install -e .`) in the source folder"
NOT_YET_RUN = "not yet run on such a card by its makers, see docs/gpu.md"
HOW_TO_GET_MLX = "MLX is not installed: pip install 'whitedwarf[mlx]'"


@dataclass(frozen=True, slots=True)
class BackendInfo:
    """One line of `whitedwarf doctor`."""

    name: str
    is_available: bool
    reason: str  # why it is, or is not, available
    level: str  # what of the machine it uses; empty if unavailable


def best_backend() -> str:
    """What `auto` means here, as far as files tell: a kind of card that seems to be usable, else the CPU."""
    return next((kind for kind in _CHOSEN if usable(kind).is_usable), "cpu")


def find_cards(backend: str, total_bytes: int, usable_bytes: int, budget_bytes: int | None = None) -> list[Card]:
    """The cards of a backend of ON_CARDS, each with this budget, if there is one; the bytes are this computer's own.

    Imports torch. BackendError says what is missing.
    """
    _check_torch(backend)
    from whitedwarf.ops.torch_cards import cpu_card, torch_cards

    if backend == "torch":
        return [cpu_card(total_bytes, usable_bytes, budget_bytes)]
    try:
        return torch_cards(backend, budget_bytes)
    except BackendError as error:
        reasons = [usable(kind).reason for kind in _CHOSEN if kind == backend]
        raise BackendError("; ".join([str(error), *reasons])) from error


def make_planned(
    backend: str,
    placement: Placement,
    threads: int = 0,
    misses: Misses = "auto",
    streamed: "StreamedExpertOps | None" = None,
) -> "Planned":
    """A backend of ON_CARDS as its placement says. Errors as `make_ops`.

    `streamed`: has the experts that are not on cards, from a disk; without it they are in the mapped file.
    """
    _check_torch(backend)
    from whitedwarf.ops.expert_source import StoredExperts
    from whitedwarf.ops.torch_backend import make_torch_ops

    if streamed is not None:
        cpu = None if misses == "copy" else streamed
        return make_torch_ops(backend, placement, cpu, misses, StoredExperts(streamed.store))
    return make_torch_ops(backend, placement, _helping_cpu(placement, threads, misses), misses)


def make_ops(backend: str = "auto", threads: int = 0, quality: bool = False) -> Ops:
    """The asked backend, or the best one here. threads 0 = all cores; quality = activations stay floats.

    Of several cards the first one is taken, and has to have room for all.

    UsageError names the backends there are, or the CPU levels if WHITEDWARF_CPU_LEVEL names none of them; BackendError
    says what is missing.
    """
    match best_backend() if backend == "auto" else backend:
        case "cpu":
            return _cpu(threads, quality)
        case "cuda" | "rocm" | "torch":
            _check_torch(backend)
            from whitedwarf.ops.torch_backend import make_torch_ops

            return make_torch_ops(backend).ops
        case "mlx":
            return _mlx()
        case "reference":
            from whitedwarf.ops.reference import ReferenceOps

            return ReferenceOps()
        case _:
            raise UsageError(f"backend must be auto, {' or '.join(BACKENDS)}; got {backend!r}")


def make_streamed(
    store: "ExpertStore", reader: "DirectReader", gguf: "GgufFile", threads: int = 0, quality: bool = False
) -> "StreamedExpertOps":
    """The CPU with its routed experts from a store and its other weights through a reader. Errors as `make_ops`."""

    def make() -> "StreamedExpertOps":
        from whitedwarf.ops.streamed_expert_ops import StreamedExpertOps

        return StreamedExpertOps(store, reader, gguf, threads, quality, level())

    return _native(make, threads)


def describe_backends() -> list[BackendInfo]:
    """Every backend this version knows, best first."""
    reference = BackendInfo("reference", True, "numpy: slow, the definition of every result", "float64")
    cards = [_describe_cards(kind) for kind in _CHOSEN]
    return [*cards, _describe_cpu(), _describe_mlx(), _describe_torch(), reference]


def level() -> str:
    """The CPU level that the environment asks for, or auto."""
    return os.environ.get(LEVEL_VARIABLE) or "auto"


def _cpu(threads: int, quality: bool) -> Ops:
    def make() -> Ops:
        from whitedwarf.ops.cpu import CpuOps

        return CpuOps(threads, quality, level())

    return _native(make, threads)


def _native(make: Callable[[], T], threads: int) -> T:
    """What `make` makes of the native module; its refusals in our words."""
    try:
        return make()
    except ImportError as error:
        raise BackendError(f"backend cpu is not available: {HOW_TO_BUILD} ({error})") from error
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


def _check_torch(backend: str) -> None:
    """BackendError where PyTorch is not installed: seen without importing it."""
    if find_spec("torch") is None:
        extra = "rocm" if backend == "rocm" else "cuda"
        reasons = ["PyTorch is not installed", *(usable(kind).reason for kind in _CHOSEN if kind == backend)]
        raise BackendError(
            f"backend {backend} is not available: {'; '.join(reasons)}; get it with pip install 'whitedwarf[{extra}]'"
        )


def _helping_cpu(placement: Placement, threads: int, misses: Misses) -> "HostBackend | None":
    """What computes experts that are missing on a card, if there are such and it is built."""
    if misses == "copy" or not any(share.slots for share in placement.shares):
        return None
    try:
        from whitedwarf.ops.cpu import CpuOps
    except ImportError:
        return None
    return CpuOps(threads, quality=True, level=level())


def _describe_cards(kind: Kind) -> BackendInfo:
    found = usable(kind)
    if not found.is_usable:
        return BackendInfo(kind, False, found.reason, "")
    try:
        cards = find_cards(kind, 0, 0)
    except BackendError as error:
        return BackendInfo(kind, False, f"{found.reason}; {error}", "")
    return BackendInfo(kind, True, f"{found.reason}; {NOT_YET_RUN}", " and ".join(card.name for card in cards))


def _describe_torch() -> BackendInfo:
    if find_spec("torch") is None:
        return BackendInfo("torch", False, "PyTorch is not installed: pip install 'whitedwarf[cuda]'", "")
    return BackendInfo(
        "torch", True, "plain PyTorch on the CPU: slow, what kernels for cards are compared with", "float32"
    )


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
