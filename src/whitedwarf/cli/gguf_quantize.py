"""`whitedwarf gguf quantize`: a model with fewer bits, from DeepSeek's checkpoint or from a GGUF file."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.cli.loading import note
from whitedwarf.cli.machine import available_threads
from whitedwarf.cli.one_line import one_line
from whitedwarf.cli.quantize_flags import DEFAULT_TYPES, TypeFlags
from whitedwarf.cli.quantize_table import plan_json, plan_lines, summary_line, type_lines
from whitedwarf.cli.termination import tidy_termination
from whitedwarf.cli.transfer_progress import TransferProgress
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.checkpoint_source import CheckpointSource
from whitedwarf.gguf.encoder import ENCODING, Encoder, ReferenceEncoder, make_encoder
from whitedwarf.gguf.imatrix import read_imatrix
from whitedwarf.gguf.part_model import PartModel, check_target, digest_of
from whitedwarf.gguf.quantize import quantize
from whitedwarf.gguf.quantize_compare import Comparison, compare
from whitedwarf.gguf.quantize_plan import NamedImportances, QuantizeOptions, QuantizePlan, plan_quantize
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.safetensors_source import SafetensorsSource
from whitedwarf.gguf.tensor_source import GgufSource, ModelSource

_NO_TARGET = Path("model.gguf")  # what --dry-run and --compare-gguf plan for when no file is named


def command(
    source: Annotated[Path, Parameter(name=["--source", "--hf"])],
    out: Annotated[Path | None, Parameter(name="--out")] = None,
    *,
    types: TypeFlags = DEFAULT_TYPES,
    template: Path | None = None,
    imatrix: Path | None = None,
    imatrix_strict: bool = False,
    compare_gguf: Path | None = None,
    compare_tensor: str | None = None,
    allow_requantize: bool = False,
    no_mtp: bool = False,
    threads: Annotated[int | None, Parameter(validator=Number(gte=1, lte=1024))] = None,
    dry_run: bool = False,
    overwrite: bool = False,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> int:
    """Quantise a model. Stopped or cut short, the same command goes on where it was.

    What no option names keeps its type.

    Parameters
    ----------
    source
        DeepSeek's checkpoint folder, or a GGUF file (any shard of one).
    out
        The GGUF file to write.
    template
        GGUF file whose metadata, order and types the new file gets.
    imatrix
        Importance matrix: how much each column of the weights matters.
    imatrix_strict
        Refuse to go without it where it lacks a tensor.
    compare_gguf
        Write nothing; make one tensor again and compare it with this file's. Exit code 1 if they differ.
    compare_tensor
        Which tensor to compare.
    allow_requantize
        Quantise also what has few bits already.
    no_mtp
        Leave the MTP block of a checkpoint out.
    threads
        Default: all cores.
    dry_run
        Only show every tensor's type and size.
    overwrite
        Replace the file if it is there already.
    as_json
        A JSON object on stdout in place of text.
    """
    if (compare_gguf is None) != (compare_tensor is None):
        raise UsageError("--compare-gguf and --compare-tensor belong together: the file, and the tensor in it.")
    if out is None and not dry_run and compare_gguf is None:
        raise UsageError("expected the file to write after the source; see --dry-run to look before that")
    if imatrix_strict and imatrix is None:
        raise UsageError("--imatrix-strict needs an --imatrix to be strict about")
    importances = None if imatrix is None else NamedImportances(read_imatrix(imatrix), imatrix)
    options = QuantizeOptions(types.rules(), importances, imatrix_strict, allow_requantize)
    with _opened(source, no_mtp) as model, ExitStack() as stack:
        pattern = None if template is None else stack.enter_context(open_gguf(template))
        plan = plan_quantize(model, out or _NO_TARGET, options, pattern)
        for text in plan.notes:
            note(text)
        encoder = make_encoder(threads or available_threads())
        if compare_gguf is not None and compare_tensor is not None:
            return _compare(plan, compare_gguf, compare_tensor, encoder, as_json)
        if not dry_run:
            if isinstance(encoder, ReferenceEncoder):
                note("the native module was not built: Q4_K, Q2_K and IQ2_XXS take a hundred times as long without it")
            others = [path for path in (template, imatrix) if path is not None]
            _write(plan, (*model.paths, *others), encoder, overwrite)
        _show(plan, dry_run, as_json)
    return 0


@contextmanager
def _opened(path: Path, no_mtp: bool) -> Iterator[ModelSource]:
    if path.is_dir():
        with SafetensorsSource(path) as source:
            yield CheckpointSource(source, include_mtp=False if no_mtp else None)
        return
    if no_mtp:
        raise UsageError("--no-mtp is for checkpoint folders; a GGUF file's tensors are all kept")
    with open_gguf(path) as model, GgufSource(model) as opened:
        yield opened


def _write(plan: QuantizePlan, sources: tuple[Path, ...], encoder: Encoder, overwrite: bool) -> None:
    target = plan.layout.path
    check_target(target, overwrite)
    if target.exists() and any(target.samefile(path) for path in sources):
        raise UsageError(f"{target}: is a file being read. Choose another name for the output.")
    digest = digest_of(plan.layout, sources, ENCODING, *(tensor.weighing for tensor in plan.tensors))
    with tidy_termination(), PartModel(plan.layout, digest, replace=overwrite) as part:
        if part.was_other_work:
            note(f"{part.path}: begun with other options or from another source; starting anew")
        if part.begun_bytes:
            note(f"{part.path}: going on at {part.begun_bytes / plan.size_bytes:.0%}")
        _carry_out(plan, part, encoder)
        part.publish()


def _carry_out(plan: QuantizePlan, part: PartModel, encoder: Encoder) -> None:
    progress = TransferProgress(plan.size_bytes)
    try:
        quantize(plan, part, encoder, lambda tensor, done_bytes: progress.show("quantising", done_bytes))
    except FileFormatError:
        part.discard()  # no later run could go on
        raise
    except (KeyboardInterrupt, SystemExit):
        progress.finish()
        note(f"stopped at {part.done_bytes / plan.size_bytes:.0%}; the same command goes on from there ({part.path})")
        raise
    finally:
        progress.finish()


def _show(plan: QuantizePlan, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps(plan_json(plan, is_written=not dry_run)))
        return
    lines = plan_lines(plan) if dry_run else type_lines(plan)
    print("\n".join(map(one_line, [*lines, summary_line(plan)])))


def _compare(plan: QuantizePlan, path: Path, tensor: str, encoder: Encoder, as_json: bool) -> int:
    with open_gguf(path) as theirs, GgufSource(theirs) as opened:
        found = compare(plan, opened, tensor, encoder)
    if as_json:
        print(json.dumps(asdict(found) | {"is_equal": found.is_equal}))
    else:
        print("\n".join(map(one_line, _comparison_lines(found))))
    return 0 if found.is_equal else 1


def _comparison_lines(found: Comparison) -> Iterator[str]:
    if found.type != found.their_type:
        yield f"{found.tensor}: made as {found.type}, but the file has {found.their_type}"
    elif found.first is None:
        yield f"{found.tensor}: equal, {found.blocks} blocks of {found.type}"
    else:
        yield (
            f"{found.tensor}: {found.differing_blocks} of {found.blocks} blocks of {found.type} differ, first at byte "
            f"{found.first.byte}: block {found.first.block}, expert {found.first.expert}, row {found.first.row}"
        )
    if found.error is not None and found.their_error is not None:
        yield f"error over the numbers' root mean square: {found.error:.6f} ours, {found.their_error:.6f} the file's"
