"""What an unfinished collection keeps beside its output, so that the same command goes on where it stopped.

Promises: the file is whole or as it was before, its sums are those of complete prompts, and sums of another model,
dataset or setting are refused. Sums are float64, so a resumed collection ends in the same bits as one in one go.
"""

import contextlib
import json
import os
import re
import secrets
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from whitedwarf.calibration.collect import Collection
from whitedwarf.errors import FileFormatError, UsageError, WhitedwarfError
from whitedwarf.ops.moments import Moments

SUFFIX = ".sums"
_ABOUT = "about"
_NAME = re.compile(r"output\.weight|(blk|mtp)\.[0-9]{1,6}\.[a-z0-9_.]{1,99}")
_SUMS, _COUNTS = "sums/", "counts/"
# What numpy and zipfile raise for damaged archives.
_DAMAGE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    AttributeError,
    EOFError,
    RuntimeError,
    MemoryError,
    SyntaxError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)

About = Mapping[str, object]  # JSON values: which model, dataset and settings


def sums_path(out: Path) -> Path:
    """Where the unfinished sums of this output are."""
    return out.with_name(out.name + SUFFIX)


def write_sums(path: Path, collection: Collection, about: About) -> None:
    """WhitedwarfError when the disk does not take it."""
    document = {**about, "prompts": collection.prompts, "tokens": collection.tokens}
    arrays: dict[str, np.ndarray] = {_ABOUT: np.frombuffer(json.dumps(document).encode(), np.uint8)}
    for name, sums in collection.moments.sums.items():
        arrays[_SUMS + name] = sums
        arrays[_COUNTS + name] = collection.moments.counts[name]
    partial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise WhitedwarfError(f"cannot write {path}: {error.strerror}; free some space, then go on") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def read_sums(path: Path, about: About) -> Collection:
    """An empty collection where there is no file. UsageError for sums of something else, FileFormatError for damage."""
    if not path.exists():
        return Collection()
    try:
        document, moments = _read(path)
        prompts, tokens = document.pop("prompts"), document.pop("tokens")
    except _DAMAGE as error:
        raise FileFormatError(
            f"{path}: is damaged or something else; expected the sums of an unfinished collection. Delete it to start "
            "anew"
        ) from error
    for key in sorted(about.keys() | document.keys()):
        was, now = document.get(key), about.get(key)
        if was != now:
            raise UsageError(
                f"{path} is of an unfinished collection with {key} {was!r}, now it is {now!r}: use the same model, "
                "dataset and settings to go on, or delete it, or choose another --out"
            )
    return Collection(moments, prompts, tokens)


def _read(path: Path) -> tuple[dict[str, int], Moments]:
    moments = Moments()
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        document = json.loads(archive[_ABOUT].tobytes())
        if not isinstance(document, dict) or any(type(document.get(key)) is not int for key in ("prompts", "tokens")):
            raise ValueError("no description")
        for key in archive.files:
            if key.startswith(_SUMS):
                name = key.removeprefix(_SUMS)
                sums, counts = archive[key], archive[_COUNTS + name]
                _check(name, sums, counts)
                moments.sums[name], moments.counts[name] = sums, counts
    if min(document["prompts"], document["tokens"]) < 0:
        raise ValueError("no description")
    return document, moments


def _check(name: str, sums: np.ndarray, counts: np.ndarray) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name} is no weight")
    is_shaped = sums.ndim == 2 and counts.shape == sums.shape[:1]
    if not is_shaped or sums.dtype != np.float64 or counts.dtype != np.int64:
        raise ValueError(f"sums of {name} have another shape or type")
    if not np.isfinite(sums).all() or sums.min() < 0 or counts.min() < 0:
        raise ValueError(f"sums of {name} are not finite or negative")
