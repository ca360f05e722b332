"""Reads past the page cache: exactly the bytes of the file as it was opened, or one error."""

import errno
import os
import threading
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fakes.faulty_files import FaultyFiles, late
from whitedwarf.errors import ModelReadError
from whitedwarf.weights.direct_reader import BLOCK_BYTES, DirectReader, room_bytes
from whitedwarf.weights.expert_extents import Extent
from whitedwarf.weights.locked_memory import AnonymousMemory

SIZE = 5 * BLOCK_BYTES + 1234
PATIENCE = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
both_ways = pytest.mark.parametrize("is_direct", [True, False])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(np.random.default_rng(3).bytes(SIZE))
    return path


def room(size_bytes: int) -> memoryview:
    return AnonymousMemory(room_bytes(size_bytes)).view()


@given(st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=8), st.booleans(), st.integers(1, 3))
@PATIENCE
def test_any_run_of_bytes_is_read_whatever_its_alignment(
    file: Path, runs: list[tuple[int, int]], is_direct: bool, pieces: int
) -> None:
    whole = file.read_bytes()
    extents = [Extent(0, start, min(size, SIZE - start)) for start, size in runs]
    files = FaultyFiles(late(lambda offset: offset * 31 % 5 * 1e-4), is_direct=is_direct)
    with DirectReader([file], 3, files, piece_bytes=pieces * BLOCK_BYTES) as reader:
        readings = [reader.begin(extent, room(extent.size_bytes)) for extent in extents]
        for extent, reading in reversed(list(zip(extents, readings, strict=True))):
            end = extent.offset_bytes + extent.size_bytes
            assert reading.wait().tobytes() == whole[extent.offset_bytes : end]
            assert reader.read(extent).tobytes() == whole[extent.offset_bytes : end]


@given(st.integers(1, 3 * BLOCK_BYTES), st.integers(0, BLOCK_BYTES))
@PATIENCE
def test_reads_that_come_in_parts_are_put_together(file: Path, most: int, start: int) -> None:
    files = FaultyFiles(lambda offset, size: most)
    if most < BLOCK_BYTES:
        files.is_direct = False
    with DirectReader([file], 1, files) as reader:
        assert reader.read(Extent(0, start, SIZE - start)).tobytes() == file.read_bytes()[start:]


@both_ways
def test_what_was_asked_for_is_counted(file: Path, is_direct: bool) -> None:
    with DirectReader([file], 1, FaultyFiles(is_direct=is_direct)) as reader:
        reader.read(Extent(0, 100, 200))
        assert reader.bytes_read == BLOCK_BYTES
        reader.read(Extent(0, BLOCK_BYTES - 1, 2))
        assert reader.bytes_read == 3 * BLOCK_BYTES


def test_where_direct_reads_are_refused_the_page_cache_is_told_to_forget(file: Path) -> None:
    files = FaultyFiles(is_direct=False)
    with DirectReader([file], 1, files) as reader:
        assert not reader.is_direct
        reader.read(Extent(0, 5000, 100))
    assert files.dropped == [(BLOCK_BYTES, BLOCK_BYTES)]


def test_a_file_system_that_opens_for_direct_reads_and_then_refuses_them_is_read_all_the_same(file: Path) -> None:
    class Refusing(FaultyFiles):
        is_ordinary = False

        def make_ordinary(self, descriptor: int) -> None:
            super().make_ordinary(descriptor)
            self.is_ordinary = True

        def read(self, descriptor: int, into: memoryview, offset_bytes: int) -> int:
            if not self.is_ordinary:
                raise OSError(errno.EINVAL, "Invalid argument")
            return super().read(descriptor, into, offset_bytes)

    with DirectReader([file], 1, Refusing()) as reader:
        assert not reader.is_direct
        assert reader.read(Extent(0, 10, 20)).tobytes() == file.read_bytes()[10:30]


@both_ways
@pytest.mark.parametrize("size", [0, 4000, 2 * BLOCK_BYTES, SIZE - 1])
def test_a_truncated_file_is_an_error(file: Path, is_direct: bool, size: int) -> None:
    with DirectReader([file], 2, FaultyFiles(is_direct=is_direct)) as reader:
        os.truncate(file, size)
        for extent in (Extent(0, SIZE - 700, 700), Extent(0, 10, 20)):
            with pytest.raises(ModelReadError, match=rf"model\.gguf: .*changed from {SIZE} to {size} bytes"):
                reader.read(extent)


@both_ways
def test_a_file_that_grew_is_an_error(file: Path, is_direct: bool) -> None:
    with DirectReader([file], 1, FaultyFiles(is_direct=is_direct)) as reader:
        with file.open("ab") as more:
            more.write(b"x")
        with pytest.raises(ModelReadError, match="expected the file as it was opened"):
            reader.read(Extent(0, 0, 10))


@both_ways
def test_a_file_that_is_rewritten_in_place_is_an_error(file: Path, is_direct: bool) -> None:
    os.utime(file, ns=(1, 1))
    with DirectReader([file], 1, FaultyFiles(is_direct=is_direct)) as reader:
        assert reader.read(Extent(0, 9, 4)).size == 4
        file.write_bytes(bytes(SIZE))
        with pytest.raises(ModelReadError, match="was written to while it was in use"):
            reader.read(Extent(0, 9, 4))


def test_a_file_that_is_rewritten_while_it_is_read_is_an_error(file: Path) -> None:
    os.utime(file, ns=(1, 1))
    faults = FaultyFiles()
    with DirectReader([file], 1, faults) as reader:
        faults.fault = lambda offset, size: file.write_bytes(bytes(SIZE)) and None
        with pytest.raises(ModelReadError, match="was written to"):
            reader.read(Extent(0, 9, 4))


@both_ways
def test_a_file_that_is_replaced_by_name_is_read_on_as_it_was(file: Path, is_direct: bool) -> None:
    before = file.read_bytes()
    with DirectReader([file], 1, FaultyFiles(is_direct=is_direct)) as reader:
        other = file.with_name("other")
        other.write_bytes(bytes(SIZE))
        other.replace(file)
        assert reader.read(Extent(0, 0, SIZE)).tobytes() == before
        file.unlink()
        assert reader.read(Extent(0, 1, 99)).tobytes() == before[1:100]


@pytest.mark.parametrize("error", [errno.EIO, errno.ESTALE, errno.EINVAL])
def test_an_error_of_the_disk_is_told_and_the_next_read_works(file: Path, error: int) -> None:
    files = FaultyFiles()
    with DirectReader([file], 2, files) as reader:

        def fail(offset_bytes: int, size_bytes: int) -> None:
            raise OSError(error, os.strerror(error))

        files.fault = fail
        with pytest.raises(ModelReadError, match=os.strerror(error)) as told:
            reader.read(Extent(0, 9, 4))
        assert "Check the disk" in str(told.value)
        files.fault = None
        assert reader.read(Extent(0, 9, 4)).tobytes() == file.read_bytes()[9:13]


def test_a_read_that_never_comes_forward_is_an_error(file: Path) -> None:
    files = FaultyFiles()
    with DirectReader([file], 1, files) as reader:
        files.fault = lambda offset, size: 0
        with pytest.raises(ModelReadError, match=r"expected 4 bytes at 0, got 0: the file ends too early"):
            reader.read(Extent(0, 0, 4))


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelReadError, match="cannot be opened for reading"):
        DirectReader([tmp_path / "none"])


def test_what_is_waited_for_overtakes_what_was_begun_just_in_case(file: Path) -> None:
    going, order = threading.Event(), []

    def fault(offset_bytes: int, size_bytes: int) -> None:
        going.wait(20)
        order.append(offset_bytes // BLOCK_BYTES)

    files = FaultyFiles()
    with DirectReader([file], 1, files) as reader:
        files.fault = fault
        extents = [Extent(0, number * BLOCK_BYTES, 10) for number in range(5)]
        first = reader.begin(extents[0], room(10))
        guesses = [reader.begin(extent, room(10), is_urgent=False) for extent in extents[1:4]]
        urgent = reader.begin(extents[4], room(10))
        guesses[0].cancel()
        threading.Timer(0.05, going.set).start()
        guesses[2].wait()
        for reading in (first, urgent, guesses[1]):
            reading.wait()
    assert order == [0, 4, 3, 2]
    assert guesses[0].is_over
    with pytest.raises(ModelReadError, match="given up"):
        guesses[0].wait()


def test_closing_gives_up_what_was_not_begun_and_waits_for_the_rest(file: Path) -> None:
    files = FaultyFiles(late(lambda _: 0.02))
    reader = DirectReader([file], 1, files)
    readings = [reader.begin(Extent(0, 0, 10), room(10)) for _ in range(5)]
    reader.close()
    assert all(reading.is_over for reading in readings)
    with pytest.raises(ModelReadError):
        readings[-1].wait()
    with pytest.raises(ValueError, match="closed"):
        reader.begin(Extent(0, 0, 10), room(10))


def test_memory_that_is_too_small_is_refused(file: Path) -> None:
    with DirectReader([file]) as reader, pytest.raises(ValueError, match="expected room"):
        reader.begin(Extent(0, 1, BLOCK_BYTES), memoryview(bytearray(BLOCK_BYTES)))
