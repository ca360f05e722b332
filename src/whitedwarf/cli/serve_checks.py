"""What is checked of a server's options before anything is loaded: what contradicts, what is missing, what is not done.

Promises: UsageError says which options; nothing here opens a model.
"""

import os
from pathlib import Path

from whitedwarf.config import ModelSettings, ServeSettings, SteeringSettings
from whitedwarf.errors import UsageError


def enter(folder: Path | None) -> None:
    """Go to `--chdir`."""
    if folder is None:
        return
    try:
        os.chdir(folder)
    except OSError as error:
        raise UsageError(f"--chdir {folder}: expected a folder; {error.strerror}") from error


def check_script(serve: ServeSettings, steering: SteeringSettings, model: ModelSettings) -> None:
    """A script answers in the model's place: what only a model can do is not asked of it."""
    if serve.script is None:
        return
    given = {
        "--kv-disk-dir": serve.kv_disk_dir is not None,
        "--power": model.power != ModelSettings().power,
        "--dir-steering-file": steering.file is not None,
    }
    for flag in (flag for flag, is_given in given.items() if is_given):
        raise UsageError(f"--script and {flag} contradict each other: a script runs no model; leave one out")
