"""Where models lie, and a file's tensors under their canonical names.

Promises that something lies at the chosen path that is no folder, and that the rule which chose it can be told to the
user; and that every tensor of an open file has exactly one canonical name. Does not open files and does not check what
they hold (`gguf.census`).
"""

import contextlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path

from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.names import canonical_name
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.weights.tensors import Tensor

MODEL_VARIABLE = "WHITEDWARF_MODEL"
DEFAULT_NAME = "ds4flash.gguf"
BUNDLED_NAME = "nano.gguf"


class ModelRule(StrEnum):
    """Why a model was chosen, in the words for the user."""

    ARGUMENT = "given with -m"
    ENVIRONMENT = f"from the environment variable {MODEL_VARIABLE}"
    WORKING_FOLDER = f"{DEFAULT_NAME} in the current folder"
    BUNDLED = "the bundled demonstration model; give a real one with -m"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """An existing model file and the rule that chose it."""

    path: Path
    rule: ModelRule

    def __str__(self) -> str:
        return f"{self.path} ({self.rule})"


def find_model(
    path: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] = os.environ,
    folder: Path = Path(),
) -> ModelChoice:
    """Choose: the path given, else WHITEDWARF_MODEL, else ./ds4flash.gguf, else the bundled nano. Raises UsageError."""
    if path is not None:
        return _existing(Path(path), ModelRule.ARGUMENT)
    if named := environment.get(MODEL_VARIABLE):
        return _existing(Path(named), ModelRule.ENVIRONMENT)
    default = folder / DEFAULT_NAME
    if default.is_file() or default.is_symlink():  # a dangling link is a mistake to report, not to pass over
        return _existing(default, ModelRule.WORKING_FOLDER)
    return _existing(bundled_model(), ModelRule.BUNDLED)


def bundled_model() -> Path:
    """Where the installed package keeps its small model."""
    return Path(str(resources.files("whitedwarf").joinpath("data", BUNDLED_NAME)))


def _existing(path: Path, rule: ModelRule) -> ModelChoice:
    with contextlib.suppress(RuntimeError):  # ~name without such a user: then it is no file either
        path = path.expanduser()
    found = _what_is_missing(path)
    if found is None:
        return ModelChoice(path, rule)
    raise UsageError(
        f"model {path} ({rule}): expected a GGUF file, but {found}. "
        f"Give one with -m FILE or {MODEL_VARIABLE}, or put {DEFAULT_NAME} into the current folder"
    )


def _what_is_missing(path: Path) -> str | None:
    """None where something lies at `path`; whoever opens it tells best why a pipe or a loop of links is no model."""
    try:
        return "that is a folder" if stat.S_ISDIR(path.stat().st_mode) else None
    except (FileNotFoundError, NotADirectoryError):
        return "there is no such file"
    except OSError:
        return None


def load_tensors(gguf: GgufFile) -> dict[str, Tensor]:
    """Views on all tensors of the file by canonical name (model.md 4.3); no tensor data is read."""
    tensors: dict[str, Tensor] = {}
    for file_name, info in gguf.tensors.items():
        name = canonical_name(file_name)
        if name in tensors:
            raise FileFormatError(
                f"{gguf.paths[0]}: {file_name} and another tensor both mean {name}, expected one; "
                "convert the model again"
            )
        tensors[name] = Tensor(name, info.type, info.shape, gguf.data(file_name))
    return tensors
