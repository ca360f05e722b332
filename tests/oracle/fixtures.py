"""The oracle's data for any test: files of tests/golden/oracle, unpacked once, and their references.

Promises: `oracle_file` gives a path to the plain file; what is stored as .xz is unpacked into .test-cache/ (ignored by
git) and put in place by a rename, so two test runs at once do no harm, and unpacked anew when the packed file changed.
Does not know: our own GGUF reader.
"""

from __future__ import annotations

import functools
import hashlib
import lzma
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from oracle.transcription import Array, Model
from oracle.weights_source import load_model

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "oracle"
CACHE = ROOT / ".test-cache" / "oracle"


@functools.cache
def oracle_file(name: str) -> Path:
    """`name` is relative to tests/golden/oracle and without .xz, such as tinyA/tiny-f32.gguf."""
    plain, packed = GOLDEN / name, GOLDEN / f"{name}.xz"
    if plain.exists():
        return plain
    if not packed.exists():
        raise FileNotFoundError(
            f"neither {plain} nor {packed} exists; scripts/make_oracle_golden.py lists what makes them"
        )
    return _unpacked(packed, CACHE)


def _unpacked(packed: Path, cache: Path) -> Path:
    content = packed.read_bytes()
    target = cache / hashlib.sha256(content).hexdigest()[:16] / packed.stem
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_atomically(target, lzma.decompress(content))
    return target


def _write_atomically(target: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(name).replace(target)


@functools.cache
def oracle_arrays(name: str) -> Mapping[str, Array]:
    """All arrays of an .npz of tests/golden/oracle, such as tinyA/ref.npz."""
    with np.load(GOLDEN / name) as archive:
        return {key: archive[key] for key in archive}


@functools.cache
def oracle_model(name: str) -> Model:
    """The transcription's model of a GGUF of tests/golden/oracle, exact arithmetic."""
    return load_model(oracle_file(name))
