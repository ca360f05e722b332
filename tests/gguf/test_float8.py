"""The release's low-bit formats against ml_dtypes and against plain definitions."""

import ml_dtypes
import numpy as np

from whitedwarf.gguf.codecs import decode
from whitedwarf.gguf.float8 import E2M1, E4M3, E8M0, repack_as_mxfp4, unpack_fp4
from whitedwarf.gguf.types import GgmlType

ALL_BYTES = np.arange(256, dtype=np.uint8)


def test_every_e4m3_code_is_what_ml_dtypes_says_but_not_a_number_is_zero() -> None:
    theirs = ALL_BYTES.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    expected = np.where(np.isnan(theirs), np.float32(0), theirs)
    np.testing.assert_array_equal(np.abs(E4M3), np.abs(expected))
    np.testing.assert_array_equal(np.signbit(E4M3[:127]), np.signbit(expected[:127]))
    np.testing.assert_array_equal(np.signbit(E4M3[128:255]), np.signbit(expected[128:255]))


def test_every_e8m0_code_is_what_ml_dtypes_says() -> None:
    np.testing.assert_array_equal(E8M0, ALL_BYTES.view(ml_dtypes.float8_e8m0fnu).astype(np.float32))


def test_every_fp4_code_is_what_ml_dtypes_says() -> None:
    np.testing.assert_array_equal(E2M1, ALL_BYTES[:16].view(ml_dtypes.float4_e2m1fn).astype(np.float32))


def test_the_even_element_of_packed_fp4_is_the_low_nibble() -> None:
    np.testing.assert_array_equal(unpack_fp4(np.array([[0x21, 0xFE]], np.uint8)), [[1, 2, 14, 15]])


def test_repacked_fp4_means_the_same_numbers() -> None:
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 256, (5, 48), np.uint8)
    scales = rng.integers(100, 140, (5, 3), np.uint8)
    expected = (E2M1[unpack_fp4(packed)].reshape(5, 3, 32) * E8M0[scales][:, :, None]).reshape(5, 96)
    np.testing.assert_array_equal(decode(repack_as_mxfp4(packed, scales), GgmlType.MXFP4, (5, 96)), expected)
