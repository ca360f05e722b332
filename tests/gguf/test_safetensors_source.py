"""The safetensors reader: right bytes from sound folders, FileFormatError from all others."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.checkpoints import Checkpoint, Stored, write_raw_safetensors, write_safetensors
from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.safetensors_source import SafetensorsSource

SMALL = {
    "a": Stored("F32", (2, 3), np.arange(6, dtype=np.float32).tobytes()),
    "b": Stored("U8", (3,), b"xyz"),
    "c": Stored("I64", (), (7).to_bytes(8, "little")),
    "d": Stored("BF16", (0, 4), b""),
}
INDEX = "model.safetensors.index.json"


def folder_of(tmp_path: Path, header: Any, data: bytes = b"") -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    write_raw_safetensors(tmp_path / "model.safetensors", raw, data)
    return tmp_path


def sharded(tmp_path: Path) -> Path:
    return Checkpoint({}, dict(SMALL)).write(tmp_path, num_shards=2)


def message(folder: Path) -> str:
    with pytest.raises(FileFormatError) as caught:
        SafetensorsSource(folder)
    return str(caught.value)


@pytest.mark.parametrize("num_shards", [0, 1, 3])
def test_every_tensor_has_its_type_shape_and_bytes(num_shards: int, tmp_path: Path) -> None:
    with SafetensorsSource(Checkpoint({}, dict(SMALL)).write(tmp_path, num_shards)) as source:
        assert set(source.tensors) == set(SMALL)
        for name, stored in SMALL.items():
            tensor = source.tensors[name]
            assert (tensor.dtype, tensor.shape) == (stored.dtype, stored.shape)
            assert source.data(tensor).tobytes() == stored.data


def test_forgotten_tensors_can_be_read_again(tmp_path: Path) -> None:
    stored = Stored("U8", (100_000,), bytes(range(250)) * 400)
    with SafetensorsSource(Checkpoint({}, {"big": stored}).write(tmp_path)) as source:
        tensor = source.tensors["big"]
        before = source.data(tensor).tobytes()
        source.forget(tensor)
        assert source.data(tensor).tobytes() == before == stored.data


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}, "has type 'F64', expected one of F32"),
        ({"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}, "expected one of"),
        ({"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}, "no sound shape"),
        ({"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}, "no sound shape"),
        ({"dtype": "F32", "shape": 4, "data_offsets": [0, 4]}, "no sound shape"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [0]}, "no sound shape"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}, "needs 4 bytes"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "needs 8 bytes"),
        ({"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}, "of 8 data bytes"),
        ({"dtype": "F32", "shape": [1 << 62, 16], "data_offsets": [0, 0]}, "needs"),
        ("F32", "has type None"),
        (None, "has type None"),
    ],
)
def test_an_unsound_entry_is_refused_by_name(entry: object, words: str, tmp_path: Path) -> None:
    text = message(folder_of(tmp_path, {"t": entry}, bytes(8)))
    assert words in text
    assert "model.safetensors: t " in text


def test_overlapping_tensors_are_refused(tmp_path: Path) -> None:
    entries = {
        name: {"dtype": "U8", "shape": [4], "data_offsets": [start, start + 4]}
        for name, start in (("first", 0), ("second", 3))
    }
    assert "first and second overlap" in message(folder_of(tmp_path, entries, bytes(8)))


@pytest.mark.parametrize("header", [b"", b"{", b"[]", b'{"a": 1, "a": 2}', b"\xff\xfe", b"[" * 100_000])
def test_a_header_that_is_not_one_is_refused(header: bytes, tmp_path: Path) -> None:
    assert "Download the file again" in message(folder_of(tmp_path, header))


@pytest.mark.parametrize("raw", [b"", b"\x01", b"\xff" * 8, (100).to_bytes(8, "little") + b"{}"])
def test_a_file_shorter_than_its_header_is_refused(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(raw)
    assert "does not fit in a file of" in message(tmp_path)


@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, 320), value=st.integers(0, 255))
def test_one_wrong_byte_in_a_header_never_gives_anything_but_a_refusal_or_other_names(
    position: int, value: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("flip")
    path = folder / "model.safetensors"
    write_safetensors(path, SMALL)
    raw = bytearray(path.read_bytes())
    raw[position % len(raw)] = value
    path.write_bytes(raw)
    try:
        with SafetensorsSource(folder) as source:
            for tensor in source.tensors.values():
                assert source.data(tensor).size == tensor.size_bytes
    except FileFormatError:
        pass


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "model-00002-of-00002.safetensors of 2 shards missing; download the rest" in message(folder)


def test_a_shard_that_the_index_does_not_know_is_named(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    write_safetensors(folder / "model-00003-of-00003.safetensors", {"e": SMALL["b"]})
    assert "model-00003-of-00003.safetensors not named by" in message(folder)


def test_a_tensor_that_the_index_promises_must_be_in_its_shard(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    index = json.loads((folder / INDEX).read_text())
    index["weight_map"]["ghost"] = "model-00001-of-00002.safetensors"
    (folder / INDEX).write_text(json.dumps(index))
    assert f"ghost is missing, though {INDEX} promises it" in message(folder)


def test_a_tensor_that_the_index_does_not_place_is_named(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    index = json.loads((folder / INDEX).read_text())
    del index["weight_map"]["a"]
    (folder / INDEX).write_text(json.dumps(index))
    assert f"holds a, which {INDEX} does not place there" in message(folder)


@pytest.mark.parametrize(
    "shard", ["../evil.safetensors", "/etc/x.safetensors", "sub/x.safetensors", "model.bin", 7, None, ""]
)
def test_an_index_may_only_name_files_beside_it(shard: object, tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": shard}}))
    assert "expected names of safetensors files beside it" in message(tmp_path)


@pytest.mark.parametrize("index", [{}, {"weight_map": {}}, {"weight_map": []}])
def test_an_index_without_a_weight_map_is_refused(index: object, tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text(json.dumps(index))
    assert "expected 'weight_map'" in message(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "found no such folder" in message(tmp_path / "nowhere")


def test_several_files_without_an_index_are_refused(tmp_path: Path) -> None:
    for number in (1, 2):
        write_safetensors(tmp_path / f"part{number}.safetensors", {f"t{number}": SMALL["b"]})
    assert "found part1.safetensors, part2.safetensors" in message(tmp_path)
