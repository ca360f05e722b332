"""`whitedwarf gguf splice`: the routed experts of some layers from another file."""

import re
from pathlib import Path

from whitedwarf.cli.gguf_rewriting import carry_out
from whitedwarf.cli.loading import note
from whitedwarf.errors import UsageError
from whitedwarf.gguf.hparams import MAX_LAYERS
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.splice import plan_splice


def command(base: Path, donor: Path, out: Path, /, *, layers: str, dry_run: bool = False, force: bool = False) -> None:
    """Make a model of mixed precision: routed experts of chosen layers from one file, all else from another.

    Parameters
    ----------
    base
        GGUF file, or any shard of one, that gives the metadata and all other tensors.
    donor
        The same model in another quantisation.
    out
        The file to write.
    layers
        Whose experts the donor gives, e.g. 37-42,0-2.
    dry_run
        Only show what would change.
    force
        Replace the file if it is there already.
    """
    chosen = parse_layers(layers)
    with open_gguf(base) as ours, open_gguf(donor) as theirs:
        splice = plan_splice(ours, theirs, out, chosen)
        for text in splice.notes:
            note(text)
        carry_out(splice.rewriting, force=force, dry_run=dry_run)
    for change in splice.changes:
        print(change)


def parse_layers(text: str, flag: str = "--layers") -> set[int]:
    """Numbers and ranges with both ends, separated by commas. Raises UsageError."""
    layers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*([0-9]{1,6})\s*(?:-\s*([0-9]{1,6})\s*)?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < MAX_LAYERS:
            raise UsageError(f"{flag}: got {part.strip()!r}; expected layers like 37-42,0-2, up to {MAX_LAYERS - 1}.")
        layers.update(range(first, last + 1))
    return layers
