"""`whitedwarf doctor`: what this machine has, and which backend and model would be used, and why."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated

from cyclopts import Parameter

from whitedwarf import __version__
from whitedwarf.cli.machine import Machine, Memory, read_machine, read_memory
from whitedwarf.cli.memory import fitting_chunk, memory_need
from whitedwarf.cli.placing import plan_model, plan_on_cpu
from whitedwarf.cli.simulated_use import SimulatedUse
from whitedwarf.cli.streaming_flags import check_streaming, simulated_bytes
from whitedwarf.config import DEFAULT_CONTEXT, DEFAULT_STREAMING, ModelSettings, StreamingSettings
from whitedwarf.engine.memory import Probe, fitting_context, probe_memory, size_text
from whitedwarf.errors import FileFormatError, OutOfMemoryError, WhitedwarfError
from whitedwarf.gguf.hparams import from_metadata
from whitedwarf.gguf.inspect import summary
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.model.config import ModelConfig
from whitedwarf.ops.select import STREAMED, BackendInfo, describe_backends
from whitedwarf.weights.placement import Placement
from whitedwarf.weights.placement_text import placement_lines
from whitedwarf.weights.store import find_model
from whitedwarf.weights.streaming_budget import StreamingPlan
from whitedwarf.weights.streaming_text import streaming_lines


@dataclass(frozen=True, slots=True)
class FoundModel:
    """The model that would be used, with the context it would have and the longest that fits into memory now.

    `error` says why there is none.
    """

    path: str = ""
    why: str = ""
    name: str = ""
    architecture: str = ""
    tensor_bytes: int = 0
    context_length: int = 0
    context_bytes: int = 0
    chunk_tokens: int = 0
    buffers_bytes: int = 0
    fitting_context: int = 0
    placement: Placement | None = None  # on cards
    streaming: StreamingPlan | None = None  # with --ssd-streaming
    not_streamed: str = ""  # why there is no such plan
    notes: tuple[str, ...] = ()  # why it is not where it might be
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything doctor knows; `backend` is the one that would be chosen."""

    version: str
    machine: Machine
    memory: Memory
    backend: str | None
    backends: tuple[BackendInfo, ...]
    model: FoundModel


def command(
    *,
    place: StreamingSettings = DEFAULT_STREAMING,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> int:
    """Look at this machine. Exit code 1 when no model could run here.

    Parameters
    ----------
    as_json
        One JSON object instead of text.
    """
    report = examine(place)
    print(json.dumps(asdict(report)) if as_json else render(report))
    return 0 if report.backend and report.model.error is None else 1


def examine(place: StreamingSettings) -> Report:
    """Look at everything."""
    backends = tuple(describe_backends())
    available = [backend.name for backend in backends if backend.is_available]
    wanted = available[:1] if place.backend == "auto" else [place.backend]
    chosen = next((name for name in wanted if name in available), None)
    return Report(__version__, read_machine(), read_memory(), chosen, backends, _find(place))


def render(report: Report) -> str:
    """The report as lines of text."""
    return "\n".join(f"{label:<12}{text}" for label, text in _rows(report))


def _find(place: StreamingSettings) -> FoundModel:
    notes: list[str] = []
    settings = ModelSettings(**{field.name: getattr(place, field.name) for field in fields(place)})
    try:
        check_streaming(replace(settings, ssd_streaming=True))
        taken = SimulatedUse(simulated_bytes(settings))
        probe, choice = probe_memory(), find_model(place.model)
        with open_gguf(choice.path) as gguf:
            found = summary(gguf)
            hp = from_metadata(gguf.metadata, gguf.tensors)
            plan = plan_model(settings, gguf, probe, DEFAULT_CONTEXT, notes.append)
            streaming, not_streamed = plan.streaming, ""
            if streaming is None and plan.placement is None and plan.backend in STREAMED:
                streaming, not_streamed = _streaming(settings, gguf, probe)
    except WhitedwarfError as error:
        return FoundModel(error=str(error))
    del taken
    usable_bytes = probe.usable_bytes
    config = ModelConfig(hp, max_context=DEFAULT_CONTEXT)
    chunk_tokens = plan.chunk_tokens or fitting_chunk(config, usable_bytes)
    default, longest = memory_need(config, 0, chunk_tokens), memory_need(ModelConfig(hp), 0, chunk_tokens)
    return FoundModel(
        path=str(choice.path),
        why=str(choice.rule),
        name=found.name,
        architecture=found.architecture,
        tensor_bytes=found.tensor_bytes,
        context_length=default.context_length,
        context_bytes=default.context_bytes,
        chunk_tokens=chunk_tokens,
        buffers_bytes=default.fixed_bytes,
        fitting_context=fitting_context(longest, usable_bytes),
        placement=plan.placement,
        streaming=streaming,
        not_streamed=not_streamed,
        notes=tuple(notes),
    )


def _streaming(settings: ModelSettings, gguf: GgufFile, probe: Probe) -> tuple[StreamingPlan | None, str]:
    """The plan if it were streamed, or why it cannot be."""
    try:
        return plan_on_cpu(settings, gguf, probe, DEFAULT_CONTEXT).plan, ""
    except (OutOfMemoryError, FileFormatError) as error:
        return None, str(error)


def _rows(report: Report) -> Iterator[tuple[str, str]]:
    machine, memory, model = report.machine, report.memory, report.model
    yield "whitedwarf", f"{report.version}, Python {machine.python}, {machine.system}"
    yield "cpu", f"{machine.cpu} ({machine.architecture})"
    yield "cores", f"{machine.cores} cores, {machine.threads} threads, {machine.usable_threads} usable by this process"
    yield "memory", f"{size_text(memory.available_bytes)} of {size_text(memory.total_bytes)} available"
    limit = memory.cgroup_limit_bytes
    yield "limit", f"{size_text(limit)} (control group)" if limit is not None else "none (no control group limit)"
    yield from _backend_rows(report)
    if model.error is not None:
        yield "model", f"none: {model.error}"
    else:
        yield "model", f"{model.path}: {model.name}, {size_text(model.tensor_bytes)} ({model.why})"
        yield from (("note", note) for note in model.notes)
        per_token = f"{model.context_bytes / model.context_length:.0f} bytes a token"
        context = f"{model.context_length} tokens take {size_text(model.context_bytes)}, {per_token}"
        if model.placement is not None:
            yield from (("plan", line) for line in placement_lines(model.placement))
            yield from _streaming_rows(model)
            yield "context", context
            return
        weights = f"weights {size_text(model.tensor_bytes)} (mapped, shared, given back under pressure)"
        buffers = f"buffers {size_text(model.buffers_bytes)} for a prefill chunk of {model.chunk_tokens} tokens"
        yield "plan", f"{weights}; {buffers}"
        yield from _streaming_rows(model)
        yield "context", f"{context}; up to {model.fitting_context} fit into memory (--ctx)"


def _streaming_rows(model: FoundModel) -> Iterator[tuple[str, str]]:
    if model.streaming is None:
        if model.not_streamed:
            yield "streaming", f"impossible: {model.not_streamed}"
    elif model.streaming.is_needless:
        yield "streaming", "not needed: the whole model fits into memory (--ssd-streaming)"
    else:
        yield from (("streaming", line) for line in streaming_lines(model.streaming))


def _backend_rows(report: Report) -> Iterator[tuple[str, str]]:
    for backend in report.backends:
        mark = "used" if backend.name == report.backend else "available" if backend.is_available else "missing"
        level = f" at level {backend.level}" if backend.level else ""
        yield "backend", f"{backend.name}{level}: {mark}; {backend.reason}"
