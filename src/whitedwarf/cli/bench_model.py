"""A model opened for an instrument: on the cpu backend or one card, with the context that it will need."""

from collections.abc import Callable
from dataclasses import replace

from whitedwarf.bench.machine import cpu_kernels, device_of
from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.config import ModelSettings
from whitedwarf.errors import UsageError
from whitedwarf.gguf.hparams import from_metadata
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.ops.base import Ops
from whitedwarf.weights.store import find_model

END_KEY = "tokenizer.ggml.eos_token_id"


def open_for(
    model: ModelSettings,
    needed: int | None,
    alloc: int | None,
    what: str,
    wrap: Callable[[Ops], Ops] = lambda ops: ops,
) -> LoadedModel:
    """Opened with `alloc` tokens of context, else --ctx, else `needed`; UsageError where `needed` is more than that.

    `what` names the options that ask for `needed`. Memory is judged for this context, before anything is loaded.
    """
    asked = alloc or model.context
    if needed is not None and asked is not None and needed > asked:
        raise UsageError(f"{what} need {needed} tokens, the context would have {asked}: raise it or measure less")
    if (context := asked or needed) is not None:
        with open_gguf(find_model(model.model).path) as gguf:
            native = from_metadata(gguf.metadata, gguf.tensors).context_length
        if context > native:
            raise UsageError(f"{what} need {context} tokens, this model has a context of {native}: measure less")
    backend = "cpu" if model.backend == "auto" else model.backend
    loaded = open_model(replace(model, context=context, backend=backend), wrap=wrap)
    measured_ops(loaded)
    return loaded


def measured_ops(loaded: LoadedModel) -> Ops:
    """The native backend or one on a PyTorch device; UsageError for others, whose limits nobody measures."""
    ops = loaded.transformer.ops
    if cpu_kernels(ops) is None and device_of(ops) is None:
        raise UsageError(f"bench measures the cpu backend, or one card; got --backend {ops.name}")
    return ops


def end_of_answer(gguf: GgufFile) -> int | None:
    """The id that ends answers, where the file names it."""
    end_id = gguf.metadata.get(END_KEY)
    return end_id if isinstance(end_id, int) else None
