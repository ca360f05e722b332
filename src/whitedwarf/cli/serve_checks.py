"""What is checked of a server's options before anything is loaded: what contradicts, what is missing, what is not done.

Promises: UsageError says which options; nothing here opens a model.
"""

import os
from pathlib import Path

from whitedwarf.config import ServeSettings, SteeringSettings
from whitedwarf.errors import UsageError

_VECTOR_BYTES = 4  # a direction's numbers are f32


def enter(folder: Path | None) -> None:
    """Go to `--chdir`."""
    if folder is None:
        return
    try:
        os.chdir(folder)
    except OSError as error:
        raise UsageError(f"--chdir {folder}: expected a folder; {error.strerror}") from error


def check_script(serve: ServeSettings, steering: SteeringSettings) -> None:
    """A script answers in the model's place: what only a model can do is not asked of it."""
    if serve.script is None:
        return
    given = {
        "--kv-disk-dir": serve.kv_disk_dir is not None,
        "--power": serve.power != ServeSettings().power,
        "--dir-steering-file": steering.file is not None,
    }
    for flag in (flag for flag, is_given in given.items() if is_given):
        raise UsageError(f"--script and {flag} contradict each other: a script runs no model; leave one out")


def steering_warning(steering: SteeringSettings) -> str | None:
    """What the user has to know about the direction that was asked for, if one was; UsageError where it makes no sense.

    With a file alone, its direction is taken out after feed-forward layers; with both scales 0, not at all.
    """
    scales = (steering.ffn or 0.0, steering.attention or 0.0)
    if steering.file is None:
        if any(scales):
            raise UsageError("--dir-steering-ffn and --dir-steering-attn need a direction: give --dir-steering-file")
        return None
    if (steering.ffn, steering.attention) != (None, None) and not any(scales):
        return None
    _check_directions(steering.file)
    return f"--dir-steering-file {steering.file}: steering is not applied yet; answers are those of the plain model"


def _check_directions(path: Path) -> None:
    try:
        size_bytes = path.stat().st_size if path.is_file() else -1
    except OSError as error:
        raise UsageError(f"--dir-steering-file {path}: expected a readable file; {error.strerror}") from error
    if size_bytes < 0:
        raise UsageError(f"--dir-steering-file {path}: expected a readable file; there is none")
    if size_bytes == 0 or size_bytes % _VECTOR_BYTES:
        raise UsageError(f"--dir-steering-file {path}: expected f32 numbers, got {size_bytes} bytes")
