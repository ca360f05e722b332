"""Which experts of a model were picked how often: kept in a file, so that the next start begins with the hot ones.

Promises that a file which is not of this model, or broken, is refused and not half believed; writing replaces the file
in one step, by one that only its owner may read. The model is named by a fingerprint that the caller chooses.
"""

import json
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from whitedwarf.errors import FileFormatError
from whitedwarf.weights.expert_cache import ExpertCache

FORMAT = "whitedwarf-expert-profile"
VERSION = 1
MOST_BYTES = 1 << 28
WARM_PICKS = 8.0  # heat of the hottest expert of a profile: soon outdone by what is really picked


def save_profile(path: Path, model: str, cache: ExpertCache) -> None:
    """Write what was picked so far. OSError where that is impossible."""
    save_picks(path, model, cache.picks)


def save_picks(path: Path, model: str, picks: npt.NDArray[np.int64]) -> None:
    """The same of the counts alone, (layers, experts)."""
    told = {"format": FORMAT, "version": VERSION, "model": model, "picks": picks.tolist()}
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(json.dumps(told).encode())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def load_profile(path: Path, model: str, cache: ExpertCache) -> None:
    """Go on counting from the file, and warm its experts: `cache.preload` then names the hottest.

    FileFormatError for a file of another model or none at all; OSError where there is no file.
    """
    picks = _picks(path, model, cache.picks.shape)
    cache.picks += picks
    cache.heat += picks * (WARM_PICKS / max(1, int(picks.max(initial=0))))


def _picks(path: Path, model: str, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    if path.stat().st_size > MOST_BYTES:
        raise _refused(path, "it is far too large")
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        found = told["format"], told["version"], told["model"]
        picks = np.array(told["picks"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise _refused(path, f"it cannot be read ({type(error).__name__})") from error
    if found != (FORMAT, VERSION, model):
        raise _refused(path, f"it is {found}, expected {(FORMAT, VERSION, model)}")
    if picks.shape != shape or picks.dtype != np.int64 or picks.min(initial=0) < 0 or picks.max(initial=0) > 1 << 52:
        raise _refused(path, f"expected counts of {shape[0]} layers with {shape[1]} experts, got {picks.shape}")
    return picks


def _refused(path: Path, why: str) -> FileFormatError:
    return FileFormatError(f"{path} is no profile of this model's experts: {why}; remove it to begin a new one")
