"""Our encoders beside ggml's on the same numbers with the same importances: bytes, decoded error, speed of one thread.

    python benchmarks/quantize.py LIBGGML_BASE [--nano FOLDER] [--rounds 7]

LIBGGML_BASE is the libggml-base.so that a llama-quantize uses. Numbers: normal, heavy-tailed (Student's t with 2.5
degrees of freedom), and experts of nano's release checkpoint. Each round times both, one after the other, so that other
work on the machine disturbs both alike; shown are medians. The last line is JSON.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whitedwarf._native import Kernels
from whitedwarf.gguf.codecs import decode
from whitedwarf.gguf.encoder import NativeEncoder
from whitedwarf.gguf.safetensors_source import SafetensorsSource
from whitedwarf.gguf.source_values import read_floats, recognise
from whitedwarf.gguf.types import GgmlType

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

ROWS, COLUMNS = 256, 4096
CASES = [
    (GgmlType.Q8_0, False),
    (GgmlType.MXFP4, False),
    (GgmlType.Q4_K, False),
    (GgmlType.Q4_K, True),
    (GgmlType.Q2_K, False),
    (GgmlType.Q2_K, True),
    (GgmlType.IQ2_XXS, True),
]


def theirs_of(path: Path) -> Callable[[Floats, GgmlType, Floats | None], Bytes]:
    """ggml's quantiser, on the calling thread."""
    library = ctypes.CDLL(str(path))
    for type_ in (GgmlType.IQ2_XXS,):
        library.ggml_quantize_init(int(type_))
    chunk = library.ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    chunk.argtypes = [ctypes.c_int, pointer, pointer, number, number, number, pointer]

    def encode(values: Floats, type_: GgmlType, weights: Floats | None) -> Bytes:
        out = np.empty(len(values) * type_.row_bytes(values.shape[1]), np.uint8)
        importances = None if weights is None else weights.ctypes.data
        chunk(int(type_), values.ctypes.data, out.ctypes.data, 0, *values.shape, importances)
        return out

    return encode


def samples(nano: Path | None) -> Iterator[tuple[str, Floats]]:
    """The numbers to encode."""
    rng = np.random.default_rng(3)
    yield "normal", (rng.standard_normal((ROWS, COLUMNS)) * 0.03).astype(np.float32)
    yield "heavy", (rng.standard_t(2.5, (ROWS, COLUMNS)) * 0.03).astype(np.float32)
    if nano is None:
        return
    with SafetensorsSource(nano) as checkpoint:
        for label, weight in (("nano gate", "w1"), ("nano down", "w2")):
            experts = []
            for expert in range(8):
                part = recognise(checkpoint.tensors[f"layers.3.ffn.experts.{expert}.{weight}.weight"], None)
                assert not isinstance(part, str), part
                experts.append(read_floats(checkpoint, part, slice(0, part.shape[0])))
            yield label, np.concatenate(experts)


def weighted_error(data: Bytes, type_: GgmlType, values: Floats, weights: Floats | None) -> float:
    """Root mean square over that of the values, each column counting as much as the importances say."""
    scale = np.float64(1) if weights is None else weights.astype(np.float64)
    difference = np.square(decode(data, type_, values.shape).astype(np.float64) - values)
    return float(np.sqrt((scale * difference).sum() / (scale * np.square(values.astype(np.float64))).sum()))


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("library", type=Path)
    parser.add_argument("--nano", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--level", default="auto")
    arguments = parser.parse_args()
    kernels = Kernels(1, arguments.level)
    ours, theirs = NativeEncoder(kernels).encode, theirs_of(arguments.library)
    print(f"one thread each, level {kernels.level}, medians of {arguments.rounds} rounds, million numbers a second")
    rows = []
    for label, values in samples(arguments.nano):
        weights = np.random.default_rng(4).gamma(0.5, 1, values.shape[1]).astype(np.float32) + np.float32(1e-4)
        for type_, is_weighted in CASES:
            given = weights if is_weighted else None
            mine, other = ours(values, type_, given), theirs(values, type_, given)
            size = type_.block_bytes
            differing = int((mine.reshape(-1, size) != other.reshape(-1, size)).any(axis=1).sum())
            times = [
                (timed(lambda: ours(values, type_, given)), timed(lambda: theirs(values, type_, given)))  # noqa: B023
                for _ in range(arguments.rounds)
            ]
            speeds = [values.size / statistics.median(column) / 1e6 for column in zip(*times, strict=True)]
            errors = [weighted_error(data, type_, values, given) for data in (mine, other)]
            name = type_.name + (" imatrix" if is_weighted else "")
            print(
                f"{label:<10} {name:<16} blocks differing {differing}/{len(mine) // size}  "
                f"error {errors[0]:.6f} {errors[1]:.6f}  speed {speeds[0]:8.1f} {speeds[1]:7.1f}  "
                f"x{speeds[0] / speeds[1]:.1f}"
            )
            rows.append({"data": label, "type": name, "differing": differing, "errors": errors, "speeds": speeds})
    print(json.dumps({"level": kernels.level, "rounds": arguments.rounds, "cases": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
