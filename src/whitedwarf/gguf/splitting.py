"""Cutting a model into several files, and joining them again.

Promises: names and keys are llama.cpp's (`split.py`), the tensors keep their order, and joining what was cut gives the
same metadata (metadata.py says what has no second form) and the same tensor bytes, in GGUF version 3. Cutting by size
counts whole files, headers included, so that a limit of a disk or a hub is kept. The keys that tell of a split are the
only ones that go.
Does not know what the tensors are.
"""

from pathlib import Path

from whitedwarf.errors import UsageError
from whitedwarf.gguf.header import align
from whitedwarf.gguf.layout import description_bytes
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.gguf.rewriting import Rewriting, own_metadata, pieces_of, plan_rewriting


def plan_split_by_count(model: GgufFile, target: Path, max_tensors: int, metadata_alone: bool = False) -> Rewriting:
    """At most `max_tensors` tensors in a file; `metadata_alone` keeps them out of the first. Raises UsageError."""
    left = len(model.tensors)
    counts = [0] if metadata_alone else []
    while left:
        counts.append(min(max_tensors, left))
        left -= counts[-1]
    return _plan(model, target, counts)


def plan_split_by_size(model: GgufFile, target: Path, max_bytes: int, metadata_alone: bool = False) -> Rewriting:
    """Files of at most `max_bytes`. Raises UsageError, also where one tensor alone is larger."""
    tensors = [piece.planned for piece in pieces_of(model)]
    heads = plan_rewriting(target, own_metadata(model), pieces_of(model), [0, len(tensors)]).layouts
    first_bytes = len(heads[0].header)
    later_bytes = len(heads[1].header) - sum(map(description_bytes, tensors))
    _check_fit(model, "the metadata", first_bytes, max_bytes)
    counts, header_bytes, data_bytes = [0], first_bytes, 0
    must_cut = metadata_alone
    for tensor in tensors:
        header_bytes += description_bytes(tensor)
        data_bytes += align(tensor.size_bytes, heads[0].alignment)
        if must_cut or align(header_bytes, heads[0].alignment) + data_bytes > max_bytes:
            counts.append(0)
            header_bytes = later_bytes + description_bytes(tensor)
            data_bytes = align(tensor.size_bytes, heads[0].alignment)
            needed_bytes = align(header_bytes, heads[0].alignment) + data_bytes
            _check_fit(model, f"a file with nothing but tensor {tensor.name!r}", needed_bytes, max_bytes)
            must_cut = False
        counts[-1] += 1
    return _plan(model, target, counts)


def plan_merge(model: GgufFile, target: Path) -> Rewriting:
    """All shards in one file. Raises UsageError where there is only one."""
    if len(model.paths) == 1:
        raise UsageError(f"{model.paths[0]}: is one file already; expected a shard like model-00001-of-00003.gguf.")
    return plan_rewriting(target, own_metadata(model), pieces_of(model))


def _plan(model: GgufFile, target: Path, counts: list[int]) -> Rewriting:
    if len(counts) < 2:
        raise UsageError(f"{model.paths[0]}: all of it fits into one file; there is nothing to split. Lower the limit.")
    return plan_rewriting(target, own_metadata(model), pieces_of(model), counts)


def _check_fit(model: GgufFile, what: str, needed_bytes: int, max_bytes: int) -> None:
    if needed_bytes > max_bytes:
        raise UsageError(
            f"{model.paths[0]}: {what} takes {needed_bytes:,} bytes, more than the {max_bytes:,} asked for as the "
            "largest file. A tensor is never cut: raise the limit."
        )
