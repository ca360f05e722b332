"""The low-bit formats of DeepSeek's release checkpoints: e4m3, e8m0 and packed FP4 (model.md 5.1, 6).

Values come out exactly: all three are powers of two times a few bits, so nothing here rounds. Not-a-number codes of
e4m3 count as zero, as in the original's converter. It does not know where scales belong; that is `source_values`.
"""

import numpy as np
from numpy.typing import NDArray

from whitedwarf.gguf.codecs_plain import FP4_DOUBLED

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

NAN_SCALE = 255  # the one e8m0 byte that is not a power of two


def _e4m3_values() -> Floats:
    """All 256 codes: sign, four bits of exponent with bias 7, three of mantissa; no infinities."""
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    magnitude = np.where(exponent > 0, np.ldexp(1 + mantissa / 8, exponent - 7), np.ldexp(mantissa / 8, -6))
    magnitude[(codes & 127) == 127] = 0
    return np.where(codes < 128, magnitude, -magnitude).astype(np.float32)


def _e8m0_values() -> Floats:
    """2^(code - 127); code 0 is denormal. The code of not-a-number is left to the caller to refuse."""
    values = np.ldexp(1.0, np.arange(256) - 127)
    values[NAN_SCALE] = np.nan
    return values.astype(np.float32)


E4M3 = _e4m3_values()
E8M0 = _e8m0_values()
E2M1 = FP4_DOUBLED / np.float32(2)


def unpack_fp4(packed: Bytes) -> Bytes:
    """(rows, columns / 2) bytes -> (rows, columns) codes; the even element is the low nibble."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1)


def repack_as_mxfp4(packed: Bytes, scales: Bytes) -> Bytes:
    """The release's FP4 rows as MXFP4 blocks, bit for bit: pairs (2j, 2j+1) of a group of 32 become (j, j+16)."""
    groups = packed.reshape(-1, 16)
    first, second = groups[:, :8], groups[:, 8:]  # elements 0..15 and 16..31
    blocks = np.empty((len(groups), 17), np.uint8)
    blocks[:, 0] = scales.reshape(-1)
    blocks[:, 1::2] = (first & 15) | (second << 4)
    blocks[:, 2::2] = (first >> 4) | (second & 0xF0)
    return blocks.reshape(-1)
