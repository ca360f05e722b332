"""Make tests/golden/quantize/blocks.npz: what ggml's own quantiser makes of given numbers.

    python scripts/make_quantize_golden.py LIBGGML_BASE [--source FOLDER]

LIBGGML_BASE is a libggml-base.so built without contraction of multiplications and additions, as the released binaries
for plain x86-64 are: cmake -DGGML_NATIVE=OFF -DCMAKE_C_FLAGS=-ffp-contract=off. FOLDER is nano's release checkpoint.
Arrays: NAME_values (rows, columns), NAME_weights (columns,), and NAME_TYPE_none or NAME_TYPE_weights with the bytes.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "tests" / "golden" / "quantize" / "blocks.npz"
SOURCE = ROOT.parent / "shared" / "nano" / "official"
SEARCHED = ("Q4_K", "Q2_K", "IQ2_XXS")
SIMPLE = ("Q8_0", "MXFP4")
ROWS, COLUMNS = 4, 512

Floats = NDArray[np.float32]


class Ggml:
    """The library's quantiser."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        self._chunk = library.ggml_quantize_chunk
        self._chunk.restype = ctypes.c_size_t
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._chunk.argtypes = [ctypes.c_int, pointer, pointer, number, number, number, pointer]

    def quantize(self, values: Floats, type_: int, size_bytes: int, weights: Floats | None) -> NDArray[np.uint8]:
        """(rows, columns) -> bytes."""
        out = np.zeros(size_bytes, np.uint8)
        importances = None if weights is None else weights.ctypes.data
        self._chunk(type_, values.ctypes.data, out.ctypes.data, 0, *values.shape, importances)
        return out


def samples(source: Path) -> Iterator[tuple[str, Floats]]:
    """Numbers of several kinds."""
    rng = np.random.default_rng(7)
    gauss = rng.standard_normal((ROWS, COLUMNS))
    yield "gauss", gauss * 0.03
    yield "heavy", rng.standard_t(2.5, (ROWS, COLUMNS)) * 0.03
    yield "sparse", np.where(rng.random((ROWS, COLUMNS)) < 0.8, 0, gauss)
    yield "tiny", gauss * 1e-12
    yield "mixed", gauss * np.exp2(rng.integers(-20, 8, (ROWS, COLUMNS)))
    yield "whole", rng.integers(-3, 4, (ROWS, COLUMNS))
    yield "even", np.stack([np.full(COLUMNS, value) for value in (0, 0.25, -0.25, 3e-30)])
    for name in ("gate", "down"):
        yield f"nano_{name}", nano_rows(source, name)


def nano_rows(source: Path, name: str) -> Floats:
    """The first rows of one expert of the bundled model's checkpoint."""
    from whitedwarf.gguf.safetensors_source import SafetensorsSource
    from whitedwarf.gguf.source_values import read_floats, recognise

    weight = {"gate": "w1", "down": "w2"}[name]
    with SafetensorsSource(source) as checkpoint:
        part = recognise(checkpoint.tensors[f"layers.3.ffn.experts.2.{weight}.weight"], None)
        assert not isinstance(part, str)
        return read_floats(checkpoint, part, slice(0, 2 * ROWS)).reshape(ROWS, -1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("library", type=Path)
    parser.add_argument("--source", type=Path, default=SOURCE)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    from whitedwarf.gguf.types import GgmlType

    ggml, arrays = Ggml(arguments.library), {}
    rng = np.random.default_rng(8)
    for name, values in samples(arguments.source):
        values = np.ascontiguousarray(values, np.float32)
        weights = (rng.gamma(0.5, 1, values.shape[1]) * (rng.random(values.shape[1]) < 0.9)).astype(np.float32)
        arrays |= {f"{name}_values": values, f"{name}_weights": weights}
        for type_name in (*SIMPLE, *SEARCHED):
            type_ = GgmlType[type_name]
            size_bytes = len(values) * type_.row_bytes(values.shape[1])
            if type_name != "IQ2_XXS":
                arrays[f"{name}_{type_name}_none"] = ggml.quantize(values, int(type_), size_bytes, None)
            if type_name in SEARCHED:
                arrays[f"{name}_{type_name}_weights"] = ggml.quantize(values, int(type_), size_bytes, weights)
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(TARGET, **arrays)
    print(f"{TARGET}: {len(arrays)} arrays, {TARGET.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
