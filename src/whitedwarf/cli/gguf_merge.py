"""`whitedwarf gguf merge`: the shards of a model as one file."""

from pathlib import Path

from whitedwarf.cli.gguf_rewriting import carry_out
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.splitting import plan_merge


def command(shard: Path, out: Path, /, *, dry_run: bool = False, force: bool = False) -> None:
    """Join the files of a split model.

    Parameters
    ----------
    shard
        Any of the files; the others are found by their names.
    out
        The file to write.
    dry_run
        Only show how large it would be.
    force
        Replace the file if it is there already.
    """
    with open_gguf(shard) as model:
        carry_out(plan_merge(model, out), force=force, dry_run=dry_run)
