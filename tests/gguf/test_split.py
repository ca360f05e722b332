"""Models cut into shards: opened from any of them, refused when they do not belong together."""

import shutil
from pathlib import Path

import pytest

from fakes.gguf_files import (
    SMALL_METADATA,
    SMALL_PLAN,
    RawTensor,
    architecture,
    key,
    raw_file,
    tensor_bytes,
    write_model,
)
from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.layout import PlannedTensor
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.split import ShardName, parse_shard_name
from whitedwarf.gguf.types import GgmlType, ValueType


@pytest.fixture
def shards(tmp_path: Path) -> tuple[Path, ...]:
    return write_model(tmp_path / "small.gguf", num_shards=3)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_split_model_opens_from_any_shard(shards: tuple[Path, ...], number: int) -> None:
    with open_gguf(shards[number]) as model:
        assert model.paths == shards
        assert [path.name for path in shards] == [f"small-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
        assert model.metadata["general.name"] == "small"
        assert (model.metadata["split.no"], model.metadata["split.count"]) == (0, 3)
        assert list(model.tensors) == [tensor.name for tensor in SMALL_PLAN]
        assert {info.shard for info in model.tensors.values()} == {0, 1, 2}
        for seed, tensor in enumerate(SMALL_PLAN):
            assert model.data(tensor.name).tobytes() == tensor_bytes(tensor, seed).tobytes()


def test_a_link_to_a_shard_opens_the_model(shards: tuple[Path, ...], tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "ds4flash.gguf"
    link.parent.mkdir()
    link.symlink_to(shards[1])
    with open_gguf(link) as model:
        assert len(model.tensors) == len(SMALL_PLAN)


def test_links_named_like_shards_open_the_model(shards: tuple[Path, ...], tmp_path: Path) -> None:
    cache = tmp_path / "snapshot"  # as the Hugging Face cache does it: the blobs have other names
    cache.mkdir()
    for number, shard in enumerate(shards):
        blob = shard.rename(tmp_path / f"blob{number}")
        (cache / shard.name).symlink_to(blob)
    with open_gguf(cache / shards[2].name) as model:
        assert len(model.tensors) == len(SMALL_PLAN)


def test_shards_without_split_keys_are_found_by_name(tmp_path: Path) -> None:
    for number in (1, 2):
        raw = raw_file([architecture()], [RawTensor(b"w%d" % number)], bytes(32))
        (tmp_path / f"m-0000{number}-of-00002.gguf").write_bytes(raw)
    with open_gguf(tmp_path / "m-00002-of-00002.gguf") as model:
        assert [(info.name, info.shard) for info in model.tensors.values()] == [("w1", 0), ("w2", 1)]


def test_the_first_shard_wins_where_both_have_a_key(tmp_path: Path) -> None:
    for number in (1, 2):
        own = key(b"number", ValueType.UINT8, bytes([number]))
        extra = key(b"extra%d" % number, ValueType.BOOL, b"\1")
        raw = raw_file([architecture(), own, extra], [RawTensor(b"w%d" % number)], bytes(32))
        (tmp_path / f"m-0000{number}-of-00002.gguf").write_bytes(raw)
    with open_gguf(tmp_path / "m-00001-of-00002.gguf") as model:
        assert list(model.metadata) == ["general.architecture", "number", "extra1", "extra2"]
        assert model.metadata["number"] == 1


def test_a_single_file_may_say_that_it_is_the_only_shard(tmp_path: Path) -> None:
    keys = [architecture(), key(b"split.no", ValueType.UINT16, b"\0\0"), key(b"split.count", ValueType.UINT16, b"\1\0")]
    for name in ("m.gguf", "m-00001-of-00001.gguf"):
        (tmp_path / name).write_bytes(raw_file(keys, [RawTensor()], bytes(32)))
        with open_gguf(tmp_path / name) as model:
            assert list(model.tensors) == ["w"]


def refused(path: Path, *texts: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        open_gguf(path)
    for text in (str(path.parent), *texts):
        assert text in str(caught.value)


def test_a_missing_shard_is_named(shards: tuple[Path, ...]) -> None:
    shards[1].unlink()
    refused(shards[0], "2 of 3 shards", "missing: small-00002-of-00003.gguf")
    refused(shards[2], "2 of 3 shards", "missing: small-00002-of-00003.gguf")


def test_swapped_shards_are_refused(shards: tuple[Path, ...], tmp_path: Path) -> None:
    spare = tmp_path / "spare"
    shards[1].rename(spare)
    shards[2].rename(shards[1])
    spare.rename(shards[2])
    refused(shards[0], "small-00002-of-00003.gguf", "'split.no': found 2; expected 1", "renamed or mixed up")


def test_a_shard_stored_twice_is_refused(shards: tuple[Path, ...]) -> None:
    shutil.copy(shards[1], shards[2])
    refused(shards[0], "small-00003-of-00003.gguf", "'split.no': found 1; expected 2")


def test_a_renamed_shard_is_told_its_name(shards: tuple[Path, ...], tmp_path: Path) -> None:
    renamed = shards[1].rename(tmp_path / "model.gguf")
    refused(renamed, "'model.gguf' for a shard of 3", "model-00002-of-00003.gguf")


def test_a_shard_of_a_model_with_another_count_is_refused(shards: tuple[Path, ...], tmp_path: Path) -> None:
    others = write_model(tmp_path / "other.gguf", num_shards=2)
    shutil.copy(others[1], shards[1])
    refused(shards[0], "small-00002-of-00003.gguf", "'split.count': found 2", "another model's")
    refused(shards[1], "'split.count': found 2; expected 3, as the name says")


def test_a_shard_of_another_architecture_is_refused(shards: tuple[Path, ...], tmp_path: Path) -> None:
    foreign = {**SMALL_METADATA, "general.architecture": (ValueType.STRING, "llama")}
    others = write_model(tmp_path / "other.gguf", foreign, num_shards=3)
    shutil.copy(others[2], shards[2])
    refused(shards[0], "small-00003-of-00003.gguf", "found 'llama'; expected 'deepseek4'")


def test_a_shard_of_a_model_with_other_tensors_is_refused(shards: tuple[Path, ...], tmp_path: Path) -> None:
    more = [*SMALL_PLAN, PlannedTensor("output.weight", GgmlType.F32, (1,))]
    others = write_model(tmp_path / "other.gguf", SMALL_METADATA, more, num_shards=3)
    shutil.copy(others[2], shards[2])
    refused(shards[0], "'split.tensors.count': found 6; expected 5")


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"m-0000{number}-of-00002.gguf").write_bytes(raw_file([architecture()], [RawTensor()], bytes(32)))
    refused(tmp_path / "m-00001-of-00002.gguf", "tensor 'w': found it also in m-00001-of-00002.gguf")


def test_a_shard_without_split_keys_among_others_is_refused(shards: tuple[Path, ...]) -> None:
    shards[1].write_bytes(raw_file([architecture()], [RawTensor()], bytes(32)))
    refused(shards[0], "no split keys, unlike the first shard")
    refused(shards[1], "no split keys, unlike the first shard")


def test_a_total_that_the_shards_do_not_reach_is_refused(tmp_path: Path) -> None:
    for number in (0, 1):
        keys = [
            architecture(),
            key(b"split.no", ValueType.UINT16, bytes([number, 0])),
            key(b"split.count", ValueType.UINT16, b"\2\0"),
            key(b"split.tensors.count", ValueType.INT32, b"\7\0\0\0"),
        ]
        raw = raw_file(keys, [RawTensor(b"w%d" % number)], bytes(32))
        (tmp_path / f"m-0000{number + 1}-of-00002.gguf").write_bytes(raw)
    refused(tmp_path / "m-00001-of-00002.gguf", "tensors: found 2 in all shards; expected 7")


def test_pieces_cut_by_bytes_are_explained(shards: tuple[Path, ...]) -> None:
    shards[1].write_bytes(b"\x12\x34\x56\x78" * 100)
    refused(shards[0], "small-00002-of-00003.gguf", "cut by bytes")


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ([key(b"split.no", ValueType.UINT16, b"\0\0")], "'split.count': found 'nothing'"),
        ([key(b"split.count", ValueType.UINT16, b"\2\0")], "'split.no': found 'nothing'"),
        (
            [key(b"split.no", ValueType.UINT8, b"\5"), key(b"split.count", ValueType.UINT8, b"\2")],
            "'split.no': found 5; expected less than split.count = 2",
        ),
        (
            [key(b"split.no", ValueType.INT8, b"\xff"), key(b"split.count", ValueType.UINT8, b"\2")],
            "'split.no': found -1",
        ),
        (
            [key(b"split.no", ValueType.UINT8, b"\0"), key(b"split.count", ValueType.BOOL, b"\1")],
            "'split.count': found True",
        ),
        (
            [key(b"split.no", ValueType.UINT8, b"\0"), key(b"split.count", ValueType.UINT32, b"\xff" * 4)],
            "'split.count': found 4294967295",
        ),
    ],
)
def test_senseless_split_keys_are_refused(tmp_path: Path, keys: list[bytes], text: str) -> None:
    (tmp_path / "m-00001-of-00002.gguf").write_bytes(raw_file([architecture(), *keys]))
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(raw_file([architecture(), *keys]))
    refused(tmp_path / "m-00001-of-00002.gguf", text)


def test_only_names_that_count_are_shard_names() -> None:
    assert parse_shard_name("a-b-00002-of-00010.gguf") == ShardName("a-b", 2, 10)
    assert str(ShardName("a-b", 2, 10)) == "a-b-00002-of-00010.gguf"
    for name in ("a.gguf", "a-00000-of-00002.gguf", "a-00003-of-00002.gguf", "a-1-of-2.gguf", "a-00001-of-00002.bin"):
        assert parse_shard_name(name) is None
