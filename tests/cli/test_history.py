import os
import stat
from pathlib import Path

from whitedwarf.cli.history import LONGEST_ENTRY, MAX_ENTRIES, LineHistory


def entries(path: Path) -> list[str]:
    return list(LineHistory(path).load_history_strings())


def test_entries_come_back_newest_first_with_their_line_ends(tmp_path: Path) -> None:
    history = LineHistory(tmp_path / "history")
    for text in ("one", "two\nlines", '日本 "quoted" \\'):
        history.store_string(text)
    assert entries(tmp_path / "history") == ['日本 "quoted" \\', "two\nlines", "one"]


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("")
    path.chmod(0o644)
    LineHistory(path).store_string("secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_blank_lines_are_not_kept(tmp_path: Path) -> None:
    LineHistory(tmp_path / "history").store_string("  \n")
    assert entries(tmp_path / "history") == []


def test_the_file_keeps_the_newest_entries(tmp_path: Path) -> None:
    path = tmp_path / "history"
    for number in range(MAX_ENTRIES + 30):
        LineHistory(path).store_string(str(number))
    kept = entries(path)
    assert (len(kept), kept[0], kept[-1]) == (MAX_ENTRIES, str(MAX_ENTRIES + 29), "30")
    assert len(path.read_bytes().splitlines()) == MAX_ENTRIES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_damaged_line_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'"good"\n\xff\xfe\nnot json\n7\n"also good"\n')
    assert entries(path) == ["also good", "good"]


def test_a_file_that_cannot_be_used_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "history"
    LineHistory(path).store_string("lost")
    assert entries(path) == []


def test_a_pipe_in_its_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "history")
    LineHistory(tmp_path / "history").store_string("hello")
    assert entries(tmp_path / "history") == []


def test_what_is_as_long_as_a_file_is_not_remembered(tmp_path: Path) -> None:
    LineHistory(tmp_path / "history").store_string("x" * (LONGEST_ENTRY + 1))
    LineHistory(tmp_path / "history").store_string("short")
    assert entries(tmp_path / "history") == ["short"]


def test_hostile_lines_cost_only_themselves_and_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'"good"\n' + b"[" * 100_000 + b'\n"half \\ud800"\n')
    assert entries(path) == ["half ?", "good"]
