"""`whitedwarf models`: which models are on this machine."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.cli.loading import note
from whitedwarf.cli.one_line import one_line
from whitedwarf.errors import UsageError
from whitedwarf.weights.fetch import gigabytes
from whitedwarf.weights.library import ModelEntry, list_models, model_folder
from whitedwarf.weights.store import find_model

_TITLES = ("", "NAME", "SIZE", "SHAPE", "TYPES", "WHERE")


def command(*folders: Path, as_json: Annotated[bool, Parameter(name="--json")] = False) -> None:
    """List the models in the current folder, in the folder of `pull`, and those a command without -m would use.

    Parameters
    ----------
    folders
        More folders to look into.
    as_json
        One JSON object instead of text.
    """
    default = _default()
    entries = list_models([Path(), model_folder(), *(_folder(folder) for folder in folders)], default)
    if as_json:
        document = {"default": str(default) if default else None, "models": [asdict(entry) for entry in entries]}
        print(json.dumps(document, ensure_ascii=False))
    else:
        print("\n".join(model_lines(entries)))


def model_lines(entries: Sequence[ModelEntry]) -> list[str]:
    """A table, `*` at the default, and below it what is wrong with some."""
    rows = [_TITLES, *(_row(entry) for entry in entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, *(one_line(f"{entry.name}: {entry.problem}") for entry in entries if entry.problem)]


def _row(entry: ModelEntry) -> tuple[str, ...]:
    files = f" ({entry.num_files} files)" if entry.num_files > 1 else ""
    cells = (entry.name + files, gigabytes(entry.size_bytes), entry.shape or "-", entry.quantisation or "-")
    return ("*" if entry.is_default else " ", *map(one_line, cells), one_line(str(Path(entry.path).parent)))


def _default() -> Path | None:
    try:
        return find_model().path
    except UsageError as error:
        note(str(error))
        return None


def _folder(folder: Path) -> Path:
    if not folder.expanduser().is_dir():
        raise UsageError(f"{folder} is no folder; expected one with models")
    return folder.expanduser()
