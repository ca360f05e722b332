"""The disk's speed is a number, for small files and large ones."""

from pathlib import Path

import pytest

from whitedwarf.bench.disk_speed import read_speed


@pytest.mark.parametrize("size_bytes", [5000, 1 << 20, (3 << 20) + 17])
def test_a_file_of_any_size_is_read(tmp_path: Path, size_bytes: int) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(size_bytes))
    assert read_speed(file, seconds=0.05, run_bytes=1 << 20, in_flight=2) > 0


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_speed(tmp_path / "none")
