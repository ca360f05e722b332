"""`whitedwarf gguf split`: a model as several files."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.cli.gguf_rewriting import carry_out
from whitedwarf.cli.sizes import parse_size
from whitedwarf.config import POSITIVE
from whitedwarf.errors import UsageError
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.gguf.rewriting import Rewriting
from whitedwarf.gguf.splitting import plan_split_by_count, plan_split_by_size


def command(
    file: Path,
    out: Path,
    /,
    *,
    max_size: str | None = None,
    max_tensors: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    metadata_alone: bool = False,
    dry_run: bool = False,
    force: bool = False,
) -> None:
    """Cut a model into several files, as llama.cpp names and reads them.

    Parameters
    ----------
    file
        GGUF file, or any shard of one that is to be cut otherwise.
    out
        Name of the model: x.gguf becomes x-00001-of-00003.gguf and so on.
    max_size
        Largest file, header included, e.g. 4G (powers of 1000) or 4GiB (of 1024).
    max_tensors
        Most tensors in a file.
    metadata_alone
        The first file holds the metadata only.
    dry_run
        Only show which files it would be.
    force
        Replace files that are there already.
    """
    with open_gguf(file) as model:
        carry_out(_plan(model, out, max_size, max_tensors, metadata_alone), force=force, dry_run=dry_run)


def _plan(model: GgufFile, out: Path, max_size: str | None, max_tensors: int | None, metadata_alone: bool) -> Rewriting:
    if max_size is not None and max_tensors is None:
        return plan_split_by_size(model, out, parse_size("--max-size", max_size), metadata_alone)
    if max_tensors is not None and max_size is None:
        return plan_split_by_count(model, out, max_tensors, metadata_alone)
    raise UsageError("expected one of --max-size and --max-tensors: where should the model be cut?")
