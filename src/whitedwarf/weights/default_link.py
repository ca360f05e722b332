"""The link under the default name (./ds4flash.gguf) that `find_model` follows.

Promises: the link changes in one step, and only a link is ever replaced: a model that a user put there stays.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.weights.store import DEFAULT_NAME


@dataclass(frozen=True, slots=True)
class Linked:
    """What became of the default name: whether it now means the model, and a sentence about it."""

    is_default: bool
    text: str


def link_default(model: Path, folder: Path = Path()) -> Linked:
    """Make the default name in `folder` point to `model`."""
    link = folder / DEFAULT_NAME
    if link.exists() and model.exists() and link.samefile(model):
        return Linked(True, f"{link} is {model}, as before")
    if link.exists() and not link.is_symlink():
        return Linked(False, f"{link} is a file and no link, so it is kept; use the new model with -m {model}")
    try:
        _replace(link, Path(os.path.relpath(model.absolute(), folder.absolute())))
    except OSError as error:
        return Linked(False, f"cannot make the link {link} ({error.strerror}); use the model with -m {model}")
    return Linked(True, f"{link} points to {model}: commands without -m use it")


def _replace(link: Path, target: Path) -> None:
    fresh = link.with_name(f".{link.name}.{os.getpid()}.link")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    try:
        fresh.replace(link)
    finally:
        fresh.unlink(missing_ok=True)
