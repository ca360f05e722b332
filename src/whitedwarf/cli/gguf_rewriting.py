"""What `gguf split`, `merge` and `splice` do with a plan: show it, or carry it out with progress."""

from pathlib import Path

from whitedwarf.cli.one_line import one_line
from whitedwarf.cli.progress import ByteProgress
from whitedwarf.cli.termination import tidy_termination
from whitedwarf.engine.memory import size_text
from whitedwarf.gguf.rewriting import Rewriting, check_targets, rewrite


def carry_out(rewriting: Rewriting, *, force: bool, dry_run: bool) -> None:
    """Write the files, and say on stdout what they are; `dry_run` only says it."""
    check_targets(rewriting, force)
    if not dry_run:
        _write(rewriting)
    for layout in rewriting.layouts:
        print(one_line(_row(layout.path, layout.size_bytes, len(layout.tensors))))


def _write(rewriting: Rewriting) -> None:
    progress = ByteProgress("writing")
    try:
        with tidy_termination():
            rewrite(rewriting, progress.show)
    finally:
        progress.finish()


def _row(path: Path, size_bytes: int, num_tensors: int) -> str:
    return f"{path}  {size_text(size_bytes)}  {num_tensors} tensors"
