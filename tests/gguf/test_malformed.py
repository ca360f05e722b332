"""Broken files: each is refused with one message that names the place, quickly, and nothing else ever comes out."""

import contextlib
import os
import random
import struct
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.gguf_files import RawTensor, architecture, key, raw_file, string, write_model
from whitedwarf.errors import FileFormatError, WhitedwarfError
from whitedwarf.gguf.cursor import HEADER_LIMIT_BYTES
from whitedwarf.gguf.inspect import render, summary
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.types import GgmlType, ValueType
from whitedwarf.gguf.verify import verify

HUGE = (1 << 64) - 1
DATA = bytes(1 << 12)


def array(element: int, count: int, payload: bytes = b"") -> bytes:
    return key(b"k", ValueType.ARRAY, struct.pack("<IQ", element, count) + payload)


def one(**lies: object) -> bytes:
    """A file with one tensor 'w' of which something is wrong."""
    return raw_file([architecture()], [RawTensor(**lies)], DATA)  # type: ignore[arg-type]


def two(first: RawTensor, second: RawTensor) -> bytes:
    return raw_file([architecture()], [first, second], DATA)


BROKEN: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "first bytes b''"),
    "magic cut": (b"GGU", "first bytes b'GGU'"),
    "other magic": (raw_file(magic=b"GGML"), "first bytes b'GGML'"),
    "web page": (b"<!DOCTYPE html><html>", "a web page"),
    "only magic": (b"GGUF", "version"),
    "version 1": (raw_file(version=1), "GGUF version 1; expected version 2 or 3"),
    "version 4": (raw_file(version=4), "GGUF version 4"),
    "version 0": (raw_file(version=0), "GGUF version 0"),
    "big endian": (raw_file(version=3 << 24), "a big-endian file"),
    "counts cut": (raw_file()[:20], "key count"),
    "huge key count": (raw_file(num_keys=HUGE), f"key count {HUGE}; expected at most 0"),
    "one key too many": (raw_file([architecture()], num_keys=2, data=DATA), "metadata key 1 of 2: found an empty key"),
    "huge tensor count": (raw_file(num_tensors=HUGE), f"list of {HUGE} tensors"),
    "one tensor too many": (raw_file(tensors=[RawTensor()], num_tensors=2, data=DATA), "tensor 1 of 2: found"),
    "key longer than the file": (raw_file([string(b"k", HUGE)], data=DATA), f"key of {HUGE} bytes"),
    "key not UTF-8": (raw_file([key(b"\xff\xfe", ValueType.BOOL, b"\1")]), "not valid UTF-8"),
    "empty key": (raw_file([key(b"", ValueType.BOOL, b"\1")], data=DATA), "an empty key"),
    "key twice": (raw_file([architecture(), architecture()]), "'general.architecture': found the key a second time"),
    "unknown value type": (
        raw_file([key(b"k", 13, b"\1")], data=DATA),
        "'k': found value type 13; expected one of 0 to 12",
    ),
    "boolean 2": (raw_file([key(b"k", ValueType.BOOL, b"\2")]), "'k': found boolean byte 2"),
    "boolean 255 in an array": (raw_file([array(ValueType.BOOL, 2, b"\1\xff")]), "'k': found boolean byte 255"),
    "number cut": (
        raw_file([key(b"key of 8", ValueType.UINT64, b"")])[:48],
        "'key of 8': found UINT64 value of 8 bytes",
    ),
    "text longer than the file": (raw_file([key(b"k", ValueType.STRING, string(b"x", 1 << 40))]), "'k': found text of"),
    "text not UTF-8": (raw_file([key(b"k", ValueType.STRING, string(b"a\xc3"))]), "'k': found text b'a\\xc3'"),
    "huge array": (raw_file([array(ValueType.FLOAT64, 1 << 61)], data=DATA), "'k': found array length"),
    "huge array of bytes": (raw_file([array(ValueType.UINT8, HUGE)], data=DATA), f"array length {HUGE}"),
    "huge array of strings": (raw_file([array(ValueType.STRING, 1 << 40)], data=DATA), "array length"),
    "huge array of arrays": (raw_file([array(ValueType.ARRAY, 1 << 60)], data=DATA), "array length"),
    "unknown element type": (raw_file([array(99, 1)], data=DATA), "'k': found array element type 99"),
    "array of strings cut": (
        raw_file([array(ValueType.STRING, 3, string(b"x" * 39))]),
        "1 strings before the end",
    ),
    "string of an array too long": (
        raw_file([array(ValueType.STRING, 1, string(b"", 9999))]),
        "string 0 of 1, 9999 bytes",
    ),
    "string of an array not UTF-8": (raw_file([array(ValueType.STRING, 1, string(b"\x80"))]), "string 0 = b'\\x80'"),
    "arrays too deep": (
        raw_file([array(ValueType.ARRAY, 1, struct.pack("<IQ", ValueType.ARRAY, 1) * 50)], data=DATA),
        "more levels of arrays",
    ),
    "alignment 0": (raw_file([key(b"general.alignment", ValueType.UINT32, bytes(4))]), "found 0 (UINT32)"),
    "alignment 48": (raw_file([key(b"general.alignment", ValueType.UINT32, b"\x30\0\0\0")]), "found 48 (UINT32)"),
    "alignment as text": (
        raw_file([key(b"general.alignment", ValueType.STRING, string(b"32"))]),
        "found '32' (STRING)",
    ),
    "alignment as u64": (raw_file([key(b"general.alignment", ValueType.UINT64, b"\x20" + bytes(7))]), "32 (UINT64)"),
    "empty tensor name": (one(name=b""), "tensor 0 of 1: found an empty name"),
    "tensor name not UTF-8": (one(name=b"\xc0"), "tensor 0 of 1: found name b'\\xc0'"),
    "tensor twice": (two(RawTensor(), RawTensor(offset=32)), "tensor 'w': found the name a second time"),
    "no dimensions": (one(dimensions=()), "tensor 'w': found 0 dimensions"),
    "five dimensions": (one(dimensions=(1,) * 5), "tensor 'w': found 5 dimensions"),
    "huge number of dimensions": (one(num_dimensions=0xFFFF_FFFF), "found 4294967295 dimensions"),
    "dimension 0": (one(dimensions=(32, 0)), "tensor 'w': found dimensions [32, 0]"),
    "product overflows": (one(dimensions=(1 << 32, 1 << 32)), "tensor 'w': found 73786976294838206464 bytes"),
    "product overflows to a small number": (
        one(dimensions=(1 << 62, 4)),
        "tensor 'w': found 73786976294838206464 bytes",
    ),
    "unknown tensor type": (one(type=77), "tensor 'w': found tensor type 77"),
    "tensor type of ggml that we lack": (one(type=20), "tensor 'w': found tensor type 20"),  # IQ4_NL
    "rows not whole blocks": (one(type=int(GgmlType.Q8_0), dimensions=(33,)), "tensor 'w': found rows of 33 elements"),
    "offset not aligned": (one(offset=4), "tensor 'w': found offset 4; expected a multiple of the alignment 32"),
    "offset past the end": (one(offset=1 << 20), "tensor 'w': found 32 bytes of F32 [8] at offset"),
    "offset overflows": (one(offset=HUGE - 31), "tensor 'w': found 32 bytes of F32 [8] at offset"),
    "end past the end": (one(offset=4096 - 32, dimensions=(9,)), "tensor 'w': found 36 bytes"),
    "data missing": (one()[: -len(DATA)], "tensor 'w': found 32 bytes"),
    "tensors at one place": (two(RawTensor(b"a"), RawTensor(b"b")), "inside tensor 'a'"),
    "overlapping tensors": (
        two(RawTensor(b"a", (9,), offset=64), RawTensor(b"b", (100,))),
        "tensor 'a': found offset 224, inside tensor 'b'; expected 560 or more",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_in_words(tmp_path: Path, name: str) -> None:
    raw, text = BROKEN[name]
    path = tmp_path / "broken.gguf"
    path.write_bytes(raw)
    start_s = time.process_time()
    with pytest.raises(FileFormatError) as caught:
        open_gguf(path)
    assert time.process_time() - start_s < 2
    message = str(caught.value)
    assert message.startswith(str(path))
    assert text in message
    assert "expected" in message
    assert message.endswith((".", "?)."))


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    (source,) = write_model(tmp_path / "small.gguf")
    raw = source.read_bytes()
    last = raw.rstrip(b"\0")  # the padding behind the last tensor may be missing
    path = tmp_path / "cut.gguf"
    for length in [*range(64), *random.Random(1).sample(range(64, len(last) - 256), 200)]:
        path.write_bytes(raw[:length])
        with pytest.raises(FileFormatError, match=r"cut\.gguf: .*expected"):
            open_gguf(path)


def test_a_count_that_runs_into_the_weights_ends_at_the_header_space(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    with path.open("wb") as file:  # 100 sparse GiB: as zeros they are 13 billion empty strings
        file.write(raw_file([array(ValueType.STRING, 1 << 33)]))
        file.truncate(100 << 30)
    with pytest.raises(FileFormatError, match="array length"):
        open_gguf(path)
    with path.open("r+b") as file:
        file.write(raw_file([key(b"k", ValueType.STRING, string(b"", 90 << 30))]))
    with pytest.raises(FileFormatError, match=r"text of 96636764160 bytes .* where the header space ends"):
        open_gguf(path)
    assert HEADER_LIMIT_BYTES < 1 << 30


def test_things_that_are_not_files_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe):
        with pytest.raises(FileFormatError, match="not a regular file"):
            open_gguf(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    (path,) = write_model(tmp_path / "m.gguf")
    path.chmod(0)
    with pytest.raises(FileFormatError, match="cannot be opened"):
        open_gguf(path)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    (path,) = write_model(tmp_path_factory.mktemp("sound") / "m.gguf")
    return path.read_bytes()


@given(st.data())
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_to_a_file_it_opens_or_is_refused(tmp_path: Path, sound: bytes, data: st.DataObject) -> None:
    raw = bytearray(sound)
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        patch = data.draw(st.binary(min_size=1, max_size=8) | st.sampled_from([b"\xff" * 8, bytes(8), b"\x7f" * 4]))
        raw[place : place + len(patch)] = patch
    path = tmp_path / "fuzzed.gguf"
    path.write_bytes(raw[: data.draw(st.none() | st.integers(0, len(raw)))])
    with contextlib.suppress(WhitedwarfError), open_gguf(path) as model:
        assert render(summary(model))
        for name, info in model.tensors.items():
            assert model.data(name).nbytes == info.size_bytes
        verify(model)
