"""What the writer writes, our reader and the PyPI package `gguf` read back; what goes wrong leaves nothing behind."""

import errno
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gguf
from fakes.gguf_files import SMALL_METADATA, SMALL_PLAN, tensor_bytes, write_model
from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.gguf.layout import PlannedTensor, partition
from whitedwarf.gguf.metadata import DTYPES, MetadataValue
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.types import GgmlType, ValueType
from whitedwarf.gguf.writer import GgufWriter

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
INTEGERS = [type_ for type_, dtype in DTYPES.items() if dtype.kind in "iu"]


def scalars() -> st.SearchStrategy[tuple[ValueType, MetadataValue]]:
    integers = [
        st.tuples(st.just(type_), st.integers(int(np.iinfo(DTYPES[type_]).min), int(np.iinfo(DTYPES[type_]).max)))
        for type_ in INTEGERS
    ]
    floats = [
        st.tuples(st.just(ValueType.FLOAT32), st.floats(width=32)),
        st.tuples(st.just(ValueType.FLOAT64), st.floats()),
    ]
    others = [st.tuples(st.just(ValueType.BOOL), st.booleans()), st.tuples(st.just(ValueType.STRING), TEXT)]
    return st.one_of(*integers, *floats, *others)


def number_arrays() -> st.SearchStrategy[np.ndarray]:
    def build(dtype: np.dtype) -> st.SearchStrategy[np.ndarray]:
        size = st.integers(0, 5).flatmap(lambda n: st.binary(min_size=n * dtype.itemsize, max_size=n * dtype.itemsize))
        if dtype.kind == "b":
            return st.lists(st.booleans(), max_size=5).map(lambda flags: np.array(flags, np.bool_))
        return size.map(lambda raw: np.frombuffer(raw, dtype))

    return st.sampled_from(list(DTYPES.values())).flatmap(build)


FLAT_ARRAYS = st.one_of(number_arrays(), st.lists(TEXT, max_size=5))
NESTED_ARRAYS = FLAT_ARRAYS | st.lists(FLAT_ARRAYS | st.lists(FLAT_ARRAYS, max_size=2), max_size=3)
ARRAYS = st.tuples(st.just(ValueType.ARRAY), FLAT_ARRAYS)
METADATA = st.dictionaries(TEXT.filter(bool), st.one_of(scalars(), ARRAYS), max_size=8)
NESTED_METADATA = st.dictionaries(
    TEXT.filter(bool), st.tuples(st.just(ValueType.ARRAY), st.lists(NESTED_ARRAYS, max_size=3)), max_size=4
)


@st.composite
def plans(draw: st.DrawFn) -> list[PlannedTensor]:
    names = draw(st.lists(TEXT.filter(bool), unique=True, max_size=6))
    plan = []
    for name in names:
        type_ = draw(st.sampled_from(GgmlType))
        others = draw(st.lists(st.integers(1, 3), max_size=3))
        plan.append(PlannedTensor(name, type_, (*others, type_.block_size * draw(st.integers(1, 2)))))
    return plan


def is_equal(left: MetadataValue, right: MetadataValue) -> bool:
    """Equality that takes NaN for equal to itself and looks into arrays."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and left.tobytes() == right.tobytes()
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(is_equal(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, float) and isinstance(right, float) and np.isnan(left):
        return bool(np.isnan(right))
    return type(left) is type(right) and left == right


@given(METADATA | NESTED_METADATA, plans(), st.integers(1, 3), st.data())
@settings(deadline=None, max_examples=60)
def test_what_is_written_is_read_back(
    metadata: dict, plan: list[PlannedTensor], shards: int, data: st.DataObject
) -> None:
    num_shards = min(shards, max(1, len(plan)))
    with TemporaryDirectory() as folder:
        with GgufWriter(Path(folder) / "m.gguf", metadata, plan, num_shards=num_shards) as writer:
            for seed, tensor in enumerate(plan):
                raw = tensor_bytes(tensor, seed)
                cut = data.draw(st.integers(0, len(raw)))
                writer.write(tensor.name, raw[:cut])
                writer.write(tensor.name, raw[cut:].tobytes()) if cut < len(raw) else None
        assert sum(path.stat().st_size for path in writer.paths) == writer.size_bytes
        assert sorted(Path(folder).iterdir()) == list(writer.paths)
        with open_gguf(data.draw(st.sampled_from(writer.paths))) as model:
            own = {key: value for key, value in model.metadata.items() if not key.startswith("split.")}
            assert list(own) == list(metadata)
            for key, (type_, value) in metadata.items():
                assert model.value_types[key] is type_
                assert is_equal(value, own[key])
            assert list(model.tensors) == [tensor.name for tensor in plan]
            for seed, tensor in enumerate(plan):
                info = model.tensors[tensor.name]
                assert (info.type, info.shape) == (tensor.type, tensor.shape)
                np.testing.assert_array_equal(model.data(tensor.name), tensor_bytes(tensor, seed))


@given(METADATA, plans())
@settings(deadline=None, max_examples=30)
def test_the_public_package_reads_what_we_write(metadata: dict, plan: list[PlannedTensor]) -> None:
    with TemporaryDirectory() as folder:
        (path,) = write_model(Path(folder) / "m.gguf", metadata, plan)
        theirs = gguf.GGUFReader(path)
        own = {key: field for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
        assert list(own) == list(metadata)
        for key, (type_, value) in metadata.items():
            assert own[key].types[0] == type_
            assert is_equal(as_list(value), as_list(own[key].contents()))
        assert [(t.name, t.tensor_type.value, tuple(reversed(t.shape.tolist()))) for t in theirs.tensors] == [
            (tensor.name, tensor.type.value, tensor.shape) for tensor in plan
        ]
        for seed, tensor in enumerate(theirs.tensors):
            assert tensor.data.tobytes() == tensor_bytes(plan[seed], seed).tobytes()


def as_list(value: MetadataValue) -> MetadataValue:
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_we_read_what_the_public_package_writes(tmp_path: Path) -> None:
    theirs = gguf.GGUFWriter(tmp_path / "m.gguf", "deepseek4")
    theirs.add_array("words", ["a", "ü", ""])
    theirs.add_array("numbers", [1, -2, 3])
    theirs.add_float32("scale", 1.5)
    theirs.add_bool("flag", True)
    weights = np.arange(64, dtype=np.float32).reshape(2, 32)
    theirs.add_tensor("w", weights)
    theirs.add_tensor(
        "q", gguf.quantize(weights, gguf.GGMLQuantizationType.Q8_0), raw_dtype=gguf.GGMLQuantizationType.Q8_0
    )
    theirs.write_header_to_file()
    theirs.write_kv_data_to_file()
    theirs.write_tensors_to_file()
    theirs.close()
    with open_gguf(tmp_path / "m.gguf") as model:
        assert model.metadata["words"] == ["a", "ü", ""]
        assert as_list(model.metadata["numbers"]) == [1, -2, 3]
        assert (model.metadata["scale"], model.metadata["flag"]) == (1.5, True)
        assert model.tensors["q"].shape == (2, 32)
        np.testing.assert_array_equal(model.data("w").view(np.float32).reshape(2, 32), weights)


def test_a_copy_through_reader_and_writer_is_the_same_file(tmp_path: Path) -> None:
    (source,) = write_model(tmp_path / "a.gguf")
    with open_gguf(source) as model:
        plan = [PlannedTensor(info.name, info.type, info.shape) for info in model.tensors.values()]
        with GgufWriter(tmp_path / "b.gguf", model.typed_metadata(), plan, sources=model.paths) as writer:
            for tensor in plan:
                writer.write(tensor.name, model.data(tensor.name))
    assert (tmp_path / "b.gguf").read_bytes() == source.read_bytes()


def test_arrays_of_foreign_types_are_written_as_their_bytes(tmp_path: Path) -> None:
    values = np.arange(8).astype(ml_dtypes.bfloat16)
    with GgufWriter(tmp_path / "m.gguf", {}, [("w", GgmlType.BF16, (2, 4))]) as writer:
        writer.write("w", values.reshape(4, 2).T)
    with open_gguf(tmp_path / "m.gguf") as model:
        assert model.data("w").tobytes() == values.reshape(4, 2).T.tobytes()


def test_plain_lists_of_numbers_become_the_usual_types(tmp_path: Path) -> None:
    values = {"small": [1, -1], "large": [1 << 40], "floats": [0.5], "flags": [True, False], "none": []}
    write_model(tmp_path / "m.gguf", {key: (ValueType.ARRAY, value) for key, value in values.items()})
    with open_gguf(tmp_path / "m.gguf") as model:
        dtypes = {key: value.dtype.name for key, value in model.metadata.items() if isinstance(value, np.ndarray)}
    assert dtypes == {"small": "int32", "large": "int64", "floats": "float32", "flags": "bool"}


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (ValueType.UINT8, 256),
        (ValueType.UINT32, -1),
        (ValueType.UINT32, "1"),
        (ValueType.UINT32, 1.5),
        (ValueType.STRING, 1),
        (ValueType.BOOL, 2),
        (ValueType.FLOAT32, 1e300),
        (ValueType.ARRAY, 1),
        (ValueType.ARRAY, "text"),
        (ValueType.ARRAY, ["a", 1]),
        (ValueType.ARRAY, [[[[[1]]]]]),
        (ValueType.STRING, "\ud800"),
        (ValueType.ARRAY, np.zeros((2, 2), np.int32)),
        (ValueType.ARRAY, np.zeros(2, np.complex64)),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_refused(tmp_path: Path, type_: ValueType, value: MetadataValue) -> None:
    with pytest.raises(ValueError, match="metadata key 'k'"):
        GgufWriter(tmp_path / "m.gguf", {"k": (type_, value)}, [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "plan",
    [
        [("w", GgmlType.F32, (2,)), ("w", GgmlType.F32, (2,))],
        [("", GgmlType.F32, (2,))],
        [("w", GgmlType.F32, ())],
        [("w", GgmlType.F32, (0,))],
        [("w", GgmlType.F32, (1, 1, 1, 1, 1))],
        [("w", GgmlType.Q8_0, (33,))],
    ],
)
def test_a_plan_that_no_file_can_hold_is_refused(tmp_path: Path, plan: list) -> None:
    with pytest.raises(ValueError, match=r"tensor|blocks"):
        GgufWriter(tmp_path / "m.gguf", {}, plan)
    assert not list(tmp_path.iterdir())


def test_an_odd_alignment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"general\.alignment = 24"):
        GgufWriter(tmp_path / "m.gguf", {"general.alignment": (ValueType.UINT32, 24)}, [])


def test_tensors_are_aligned_as_the_metadata_says(tmp_path: Path) -> None:
    metadata = {**SMALL_METADATA, "general.alignment": (ValueType.UINT32, 4096)}
    for path in write_model(tmp_path / "m.gguf", metadata, num_shards=2):
        with open_gguf(path) as model:
            assert all(info.offset_bytes % 4096 == 0 for info in model.tensors.values())


@pytest.fixture
def existing(tmp_path: Path) -> Iterator[Path]:
    """A target that is there already; whatever goes wrong it must still be there, alone."""
    path = tmp_path / "m.gguf"
    path.write_bytes(b"old")
    yield path
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


PLAN = [("a", GgmlType.F32, (4,)), ("b", GgmlType.F32, (2,))]


def write_zeros(path: Path, *writes: tuple[str, int]) -> None:
    """Write these tensors' names with so many zero bytes."""
    with GgufWriter(path, {}, PLAN) as writer:
        for name, size_bytes in writes:
            writer.write(name, bytes(size_bytes))


def test_too_many_bytes_are_refused(existing: Path) -> None:
    with pytest.raises(ValueError, match="'a' got 4 bytes too many"):
        write_zeros(existing, ("a", 12), ("a", 8))


def test_too_few_bytes_are_refused(existing: Path) -> None:
    with pytest.raises(ValueError, match="'b' lacks 5 bytes"):
        write_zeros(existing, ("a", 16), ("b", 3))


def test_data_out_of_order_is_refused(existing: Path) -> None:
    with pytest.raises(ValueError, match="'b' came; the plan expects tensor 'a'"):
        write_zeros(existing, ("b", 8))


def test_data_of_no_planned_tensor_is_refused(existing: Path) -> None:
    with pytest.raises(ValueError, match="no more tensors"):
        write_zeros(existing, ("a", 16), ("b", 8), ("b", 1))


def test_an_abandoned_writer_does_not_close(existing: Path) -> None:
    writer = GgufWriter(existing, {}, [])
    writer.abandon()
    writer.abandon()
    with pytest.raises(ValueError, match="abandoned"):
        writer.close()


def test_an_exception_of_the_caller_leaves_the_target_alone(existing: Path) -> None:
    def interrupted() -> None:
        with GgufWriter(existing, {}, PLAN) as writer:
            writer.write("a", bytes(16))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()


def test_too_little_space_is_refused_before_any_work(existing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(existing.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=1000))
    with pytest.raises(WhitedwarfError, match=r"4,000,\d+ bytes are needed and 1,000 are free"):
        GgufWriter(existing, {}, [("w", GgmlType.F32, (1_000_000,))])


class FullDisk(io.FileIO):
    """A disk that takes 100 bytes and no more."""

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        room = 100 - self.tell()
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data[:room])


def test_a_disk_that_fills_up_leaves_nothing(existing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "FileIO", FullDisk)
    with pytest.raises(WhitedwarfError, match="the disk is full"):
        write_zeros(existing, ("a", 16), ("b", 8))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_is_not_replaced() -> None:
    with pytest.raises(UsageError, match="not a regular file"):
        GgufWriter("/dev/full", {}, [])


def test_the_file_being_read_is_not_overwritten(tmp_path: Path) -> None:
    (path,) = write_model(tmp_path / "m.gguf")
    link = tmp_path / "link.gguf"
    link.hardlink_to(path)
    for target in (path, link):
        with pytest.raises(UsageError, match="is the file being read"):
            GgufWriter(target, {}, [], sources=[path])


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        GgufWriter(tmp_path / "none" / "m.gguf", {}, [])


def test_a_finished_file_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"old")
    write_model(path)
    with open_gguf(path) as model:
        assert list(model.tensors) == [tensor.name for tensor in SMALL_PLAN]


@given(st.lists(st.integers(1, 100), min_size=1, max_size=30), st.integers(1, 6))
def test_shards_are_runs_of_the_plan_and_never_empty(sizes: list[int], count: int) -> None:
    groups = partition(sizes, min(count, len(sizes)))
    assert [index for group in groups for index in group] == list(range(len(sizes)))
    assert len(groups) == min(count, len(sizes))
    assert all(groups)
    assert max(sum(sizes[i] for i in group) for group in groups) <= sum(sizes) / len(groups) + max(sizes)
