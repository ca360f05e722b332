"""`whitedwarf doctor`: what this machine has, and which backend and model would be used, and why."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated

from cyclopts import Parameter

from whitedwarf import __version__
from whitedwarf.cli.machine import Machine, Memory, read_machine, read_memory
from whitedwarf.cli.memory import fitting_chunk, memory_need
from whitedwarf.config import DEFAULT_CONTEXT, DEFAULT_FILE, FileSettings
from whitedwarf.engine.memory import fitting_context, size_text
from whitedwarf.errors import WhitedwarfError
from whitedwarf.gguf.hparams import from_metadata
from whitedwarf.gguf.inspect import summary
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.config import ModelConfig
from whitedwarf.ops.select import BackendInfo, describe_backends
from whitedwarf.weights.store import find_model


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
    file: FileSettings = DEFAULT_FILE,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> int:
    """Look at this machine. Exit code 1 when no model could run here.

    Parameters
    ----------
    as_json
        One JSON object instead of text.
    """
    report = examine(file)
    print(json.dumps(asdict(report)) if as_json else render(report))
    return 0 if report.backend and report.model.error is None else 1


def examine(file: FileSettings) -> Report:
    """Look at everything."""
    backends = tuple(describe_backends())
    chosen = next((backend.name for backend in backends if backend.is_available), None)
    memory = read_memory()
    return Report(__version__, read_machine(), memory, chosen, backends, _find(file, memory.usable_bytes))


def render(report: Report) -> str:
    """The report as lines of text."""
    return "\n".join(f"{label:<12}{text}" for label, text in _rows(report))


def _find(file: FileSettings, usable_bytes: int) -> FoundModel:
    try:
        choice = find_model(file.model)
        with open_gguf(choice.path) as gguf:
            found = summary(gguf)
            hp = from_metadata(gguf.metadata, gguf.tensors)
    except WhitedwarfError as error:
        return FoundModel(error=str(error))
    config = ModelConfig(hp, max_context=DEFAULT_CONTEXT)
    chunk_tokens = fitting_chunk(config, usable_bytes)
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
    )


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
        weights = f"weights {size_text(model.tensor_bytes)} (mapped, shared, given back under pressure)"
        buffers = f"buffers {size_text(model.buffers_bytes)} for a prefill chunk of {model.chunk_tokens} tokens"
        yield "plan", f"{weights}; {buffers}"
        per_token = f"{model.context_bytes / model.context_length:.0f} bytes a token"
        context = f"{model.context_length} tokens take {size_text(model.context_bytes)}, {per_token}"
        yield "context", f"{context}; up to {model.fitting_context} fit into memory (--ctx)"


def _backend_rows(report: Report) -> Iterator[tuple[str, str]]:
    for backend in report.backends:
        mark = "used" if backend.name == report.backend else "available" if backend.is_available else "missing"
        level = f" at level {backend.level}" if backend.level else ""
        yield "backend", f"{backend.name}{level}: {mark}; {backend.reason}"
