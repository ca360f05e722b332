"""Cutting and joining: the same metadata and bytes come back, llama.cpp's names and keys, and limits that hold."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gguf
from fakes.gguf_files import SMALL_METADATA, SMALL_PLAN, RawTensor, architecture, raw_file, tensor_bytes, write_model
from whitedwarf.errors import FileFormatError, UsageError, WhitedwarfError
from whitedwarf.gguf import copying, writer
from whitedwarf.gguf.layout import PlannedTensor
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.rewriting import check_targets, rewrite
from whitedwarf.gguf.splitting import plan_merge, plan_split_by_count, plan_split_by_size
from whitedwarf.gguf.types import GgmlType, ValueType

TYPES = st.sampled_from([GgmlType.F32, GgmlType.F16, GgmlType.Q8_0, GgmlType.Q2_K, GgmlType.MXFP4, GgmlType.I32])
METADATA: TypedMetadata = {
    **SMALL_METADATA,
    "odd": (ValueType.ARRAY, np.array([3, 1, 2], np.int16)),
    "float": (ValueType.FLOAT64, 0.1),
    "empty": (ValueType.ARRAY, []),
}


@st.composite
def plans(draw: st.DrawFn) -> list[PlannedTensor]:
    count = draw(st.integers(2, 9))
    types = draw(st.lists(TYPES, min_size=count, max_size=count))
    rows = draw(st.lists(st.integers(1, 40), min_size=count, max_size=count))
    return [PlannedTensor(f"t{i}", types[i], (rows[i], types[i].block_size)) for i in range(count)]


def split_by_count(source: Path, target: Path, most: int, metadata_alone: bool = False) -> tuple[Path, ...]:
    with open_gguf(source) as model:
        return rewrite(plan_split_by_count(model, target, most, metadata_alone))


def split_by_size(source: Path, target: Path, most: int, metadata_alone: bool = False) -> tuple[Path, ...]:
    with open_gguf(source) as model:
        return rewrite(plan_split_by_size(model, target, most, metadata_alone))


def merge(shard: Path, target: Path) -> Path:
    with open_gguf(shard) as model:
        (path,) = rewrite(plan_merge(model, target))
    return path


@given(plans(), st.integers(1, 8), st.booleans(), st.sampled_from([32, 64, 512]))
@settings(deadline=None, max_examples=60)
def test_merging_what_was_split_by_count_gives_the_same_file(
    plan: list[PlannedTensor], most: int, metadata_alone: bool, alignment: int
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        keys = {**METADATA, "general.alignment": (ValueType.UINT32, alignment)}
        (whole,) = write_model(folder / "whole.gguf", keys, plan)
        most = min(most, len(plan) - 1)
        paths = split_by_count(whole, folder / "part.gguf", most, metadata_alone)
        counts = [len(gguf.GGUFReader(path).tensors) for path in paths]
        assert counts[0] == (0 if metadata_alone else most)
        assert max(counts) == most
        assert merge(paths[-1], folder / "again.gguf").read_bytes() == whole.read_bytes()


@given(plans(), st.data(), st.booleans())
@settings(deadline=None, max_examples=60)
def test_no_shard_is_larger_than_asked_and_merging_gives_the_same_file(
    plan: list[PlannedTensor], data: st.DataObject, metadata_alone: bool
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (whole,) = write_model(folder / "whole.gguf", METADATA, plan)
        size = whole.stat().st_size
        least = max(tensor.size_bytes for tensor in plan) + 1024
        most = data.draw(st.integers(min(least, size - 1), size - 1))
        try:
            paths = split_by_size(whole, folder / "part.gguf", most, metadata_alone)
        except UsageError as error:
            assert "raise the limit" in str(error)  # noqa: PT017
            assert most < least
            assert list(folder.iterdir()) == [whole]
            return
        assert max(path.stat().st_size for path in paths) <= most
        assert merge(paths[0], folder / "again.gguf").read_bytes() == whole.read_bytes()


def test_a_shard_is_as_full_as_the_limit_allows(tmp_path: Path) -> None:
    (whole,) = write_model(tmp_path / "m.gguf")
    paths = split_by_count(whole, tmp_path / "counted.gguf", 3)
    limit = max(path.stat().st_size for path in paths)
    again = split_by_size(whole, tmp_path / "sized.gguf", limit)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]


def test_names_and_keys_are_llama_cpps(tmp_path: Path) -> None:
    (whole,) = write_model(tmp_path / "m.gguf")
    paths = split_by_count(whole, tmp_path / "part.gguf", 2)
    assert [path.name for path in paths] == [f"part-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for number, path in enumerate(paths):
        fields = gguf.GGUFReader(path).fields
        values = {key: fields[f"split.{key}"] for key in ("no", "count", "tensors.count")}
        assert {key: field.contents() for key, field in values.items()} == {
            "no": number,
            "count": 3,
            "tensors.count": len(SMALL_PLAN),
        }
        assert values["no"].types == values["count"].types == [gguf.GGUFValueType.UINT16]
        assert values["tensors.count"].types == [gguf.GGUFValueType.INT32]
        assert ("general.name" in fields) is (number == 0)


def test_shards_of_the_gguf_package_are_merged(tmp_path: Path) -> None:
    theirs = gguf.GGUFWriter(tmp_path / "their.gguf", "deepseek4", split_max_tensors=2)
    arrays = {f"t{i}": np.arange(8 * (i + 1), dtype=np.float32).reshape(-1, 8) for i in range(5)}
    theirs.add_name("theirs")
    for name, array in arrays.items():
        theirs.add_tensor(name, array)
    theirs.write_header_to_file()
    theirs.write_kv_data_to_file()
    theirs.write_tensors_to_file()
    theirs.close()
    path = merge(tmp_path / "their-00002-of-00003.gguf", tmp_path / "one.gguf")
    reader = gguf.GGUFReader(path)
    assert {tensor.name: tensor.data.tolist() for tensor in reader.tensors} == {
        name: array.tolist() for name, array in arrays.items()
    }
    assert reader.fields["general.name"].contents() == "theirs"
    assert not [key for key in reader.fields if key.startswith("split.")]


def test_a_split_model_can_be_split_otherwise(tmp_path: Path) -> None:
    (whole,) = write_model(tmp_path / "m.gguf")
    first = split_by_count(whole, tmp_path / "a.gguf", 1)
    second = split_by_count(first[3], tmp_path / "b.gguf", 4)
    assert second[0].read_bytes() == split_by_count(whole, tmp_path / "c.gguf", 4)[0].read_bytes()


def test_the_order_of_the_file_is_kept_where_offsets_are_in_another(tmp_path: Path) -> None:
    tensors = [RawTensor(b"late", offset=32), RawTensor(b"early", offset=0)]
    (tmp_path / "m.gguf").write_bytes(raw_file([architecture()], tensors, bytes(range(64))))
    paths = split_by_count(tmp_path / "m.gguf", tmp_path / "part.gguf", 1)
    with open_gguf(merge(paths[0], tmp_path / "again.gguf")) as model:
        assert list(model.tensors) == ["late", "early"]
        assert model.data("late").tobytes() == bytes(range(32, 64))
        assert model.data("early").tobytes() == bytes(range(32))


def refused(folder: Path, call: Callable[[], object], *texts: str, kind: type[Exception] = UsageError) -> None:
    before = sorted(folder.iterdir())
    with pytest.raises(kind) as caught:
        call()
    for text in texts:
        assert text in str(caught.value)
    assert sorted(folder.iterdir()) == before


def test_what_fits_into_one_file_is_not_split(tmp_path: Path) -> None:
    (whole,) = write_model(tmp_path / "m.gguf")
    refused(tmp_path, lambda: split_by_count(whole, tmp_path / "x.gguf", 5), "m.gguf", "nothing to split")
    refused(tmp_path, lambda: split_by_size(whole, tmp_path / "x.gguf", 1 << 30), "nothing to split")


def test_one_file_is_not_merged(tmp_path: Path) -> None:
    (whole,) = write_model(tmp_path / "m.gguf")
    refused(tmp_path, lambda: merge(whole, tmp_path / "x.gguf"), "one file already")


def test_a_limit_below_the_metadata_or_one_tensor_says_what_is_needed(tmp_path: Path) -> None:
    (whole,) = write_model(tmp_path / "m.gguf")
    refused(tmp_path, lambda: split_by_size(whole, tmp_path / "x.gguf", 100), "the metadata takes", "raise the limit")
    big = [*SMALL_PLAN, PlannedTensor("big", GgmlType.F32, (1000,))]
    (whole,) = write_model(tmp_path / "m.gguf", plan=big)
    refused(tmp_path, lambda: split_by_size(whole, tmp_path / "x.gguf", 3000), "nothing but tensor 'big'", "4,")


def test_a_missing_shard_is_named_before_anything_is_written(tmp_path: Path) -> None:
    paths = write_model(tmp_path / "m.gguf", num_shards=3)
    paths[1].unlink()
    refused(tmp_path, lambda: merge(paths[0], tmp_path / "x.gguf"), "m-00002-of-00003.gguf", kind=FileFormatError)


def test_the_output_may_not_be_the_input(tmp_path: Path) -> None:
    paths = write_model(tmp_path / "m.gguf", num_shards=2)
    refused(tmp_path, lambda: merge(paths[0], paths[1]), "is the file being read")
    os.link(paths[1], tmp_path / "hard.gguf")
    refused(tmp_path, lambda: merge(paths[0], tmp_path / "hard.gguf"), "is the file being read")
    with open_gguf(paths[0]) as model:
        plan = plan_merge(model, tmp_path / "hard.gguf")
        refused(tmp_path, lambda: check_targets(plan, replace=True), "hard.gguf: is a file being read")


def test_a_shards_name_is_no_name_for_a_whole_model(tmp_path: Path) -> None:
    paths = write_model(tmp_path / "m.gguf", num_shards=2)
    with open_gguf(paths[0]) as model:
        plan = plan_merge(model, tmp_path / "x-00001-of-00002.gguf")
        refused(tmp_path, lambda: check_targets(plan), "the name of one shard of 2")


def test_what_is_there_is_replaced_only_when_asked(tmp_path: Path) -> None:
    paths = write_model(tmp_path / "m.gguf", num_shards=2)
    (tmp_path / "x.gguf").write_text("mine")
    with open_gguf(paths[0]) as model:
        plan = plan_merge(model, tmp_path / "x.gguf")
        refused(tmp_path, lambda: check_targets(plan), "x.gguf: exists already", "--force")
        check_targets(plan, replace=True)


def test_too_little_space_is_told_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = write_model(tmp_path / "m.gguf")
    usage = writer.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(writer.shutil, "disk_usage", lambda folder: usage._replace(free=10))
    refused(
        tmp_path,
        lambda: split_by_count(whole, tmp_path / "x.gguf", 2),
        "the disk is full",
        "10 are free",
        kind=WhitedwarfError,
    )


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, None])
def test_files_are_copied_by_hand_where_the_kernel_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int | None
) -> None:
    def cannot(*arguments: object) -> int:
        if number is None:
            return 0
        raise OSError(number, "cannot")

    monkeypatch.setattr(os, "copy_file_range", cannot, raising=False)
    monkeypatch.setattr(copying, "PIECE_BYTES", 100)
    (whole,) = write_model(tmp_path / "m.gguf")
    assert merge(split_by_count(whole, tmp_path / "x.gguf", 2)[0], tmp_path / "y.gguf").read_bytes() == (
        whole.read_bytes()
    )


def test_a_disk_that_fills_up_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", full, raising=False)
    (whole,) = write_model(tmp_path / "m.gguf")
    refused(tmp_path, lambda: split_by_count(whole, tmp_path / "x.gguf", 2), "the disk is full", kind=WhitedwarfError)


def test_a_source_that_shrinks_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    (whole,) = write_model(tmp_path / "m.gguf")
    with open_gguf(whole) as model:
        plan = plan_split_by_count(model, tmp_path / "x.gguf", 2)
        with whole.open("r+b") as file:
            file.truncate(model.tensors["blk.0.attn_sinks.weight"].offset_bytes)
        refused(tmp_path, lambda: rewrite(plan), "m.gguf: ends at byte", "became shorter", kind=FileFormatError)


def test_progress_grows_to_the_total(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    (whole,) = write_model(tmp_path / "m.gguf")
    with open_gguf(whole) as model:
        rewrite(plan_split_by_count(model, tmp_path / "x.gguf", 2), lambda done, total: calls.append((done, total)))
    total = sum(tensor_bytes(tensor).nbytes for tensor in SMALL_PLAN)
    assert calls[-1] == (total, total)
    assert [done for done, _ in calls] == sorted({done for done, _ in calls})


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_leaves_nothing(tmp_path: Path, interruption: type[BaseException]) -> None:
    (whole,) = write_model(tmp_path / "m.gguf")

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise interruption

    with open_gguf(whole) as model, pytest.raises(interruption):
        rewrite(plan_split_by_count(model, tmp_path / "x.gguf", 1), stop)
    assert list(tmp_path.iterdir()) == [whole]


MEASURED = """
import resource, sys
from pathlib import Path
from whitedwarf.gguf import copying
from whitedwarf.gguf.digests import DigestWatcher
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.rewriting import rewrite
from whitedwarf.gguf.splitting import plan_split_by_count
from whitedwarf.gguf.statistics import StatisticsWatcher
from whitedwarf.gguf.verify import verify

if sys.argv[3] == "by hand":
    copying._by_kernel = lambda *arguments: 0
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with open_gguf(sys.argv[1]) as model, StatisticsWatcher(2) as watcher:
    rewrite(plan_split_by_count(model, Path(sys.argv[2]), 1))
    assert verify(model, watchers=[watcher, DigestWatcher()]) == []
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss counts in other units elsewhere")
@pytest.mark.parametrize("way", ["by the kernel", "by hand"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, way: str) -> None:
    half = 100 << 20
    tensors = [
        RawTensor(b"a", (half // 34 * 32,), GgmlType.Q8_0),
        RawTensor(b"b", (half // 4,), GgmlType.F32, offset=half),
    ]
    with (tmp_path / "m.gguf").open("wb") as file:
        file.write(raw_file([architecture()], tensors))
        file.truncate(file.tell() + 2 * half)  # a hole: no disk space
    words = [sys.executable, "-c", MEASURED, str(tmp_path / "m.gguf"), str(tmp_path / "x.gguf"), way]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=os.environ, check=True)
    assert int(done.stdout) < 80 << 10  # KiB
    for path in tmp_path.iterdir():
        path.unlink()
