"""What llama-server has read is kept while it does not run: only for the same, in bounded time and space."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from supervisor.children import config_of, events, stand_in
from whitedwarf.supervisor.config import Backend
from whitedwarf.supervisor.launch import Launcher
from whitedwarf.supervisor.slots import fullest, prune, slot_folder, state_name

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="signals and groups")]


def slot_events(folder: Path) -> list[tuple[str, str]]:
    """What was done with slots, and which requests came between."""
    told = [one for one in events(folder / "events") if one["what"] in ("slot", "ask")]
    return [(one.get("action", "ask"), one.get("name", "")) for one in told]


async def test_a_state_is_saved_before_the_end_and_given_back_after_the_start(tmp_path: Path) -> None:
    model = stand_in(tmp_path, keeps_state=True)
    launcher = Launcher(config_of(tmp_path, model))
    with anyio.fail_after(60):
        for _ in range(2):
            await (await launcher.launch(model, lambda text: None)).stop()
    told = slot_events(tmp_path)
    assert [what for what, _ in told] == ["ask", "save", "ask", "restore", "save"]
    assert told[1][1] == told[3][1] + ".new"
    [folder] = (tmp_path / "state" / "slots").iterdir()
    assert [path.name for path in folder.iterdir()] == [told[3][1]]
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_a_state_is_not_saved_where_that_is_not_wanted(tmp_path: Path) -> None:
    model = stand_in(tmp_path, keeps_state=True)
    with anyio.fail_after(60):
        await (await Launcher(config_of(tmp_path, model)).launch(model, lambda text: None)).stop(saves_state=False)
    assert [what for what, _ in slot_events(tmp_path)] == ["ask"]


@pytest.mark.parametrize("how", ["busy", "refused", "hangs", "dies"])
async def test_a_state_that_cannot_be_saved_stops_nothing(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whitedwarf.supervisor.slots.SAVE_S", 0.3)
    model = stand_in(tmp_path, "--slots", how, keeps_state=True)
    with anyio.fail_after(60):
        running = await Launcher(config_of(tmp_path, model)).launch(model, lambda text: None)
        await running.stop()
    [folder] = (tmp_path / "state" / "slots").iterdir()
    assert list(folder.iterdir()) == []


async def test_a_state_that_cannot_be_given_back_stops_nothing(tmp_path: Path) -> None:
    model = stand_in(tmp_path, "--slots", "no restore", keeps_state=True)
    launcher = Launcher(config_of(tmp_path, model))
    with anyio.fail_after(60):
        for _ in range(2):
            running = await launcher.launch(model, lambda text: None)
            await running.stop()
    assert running.warnings == ()


def test_a_state_belongs_to_one_file_one_build_and_the_same_arguments(tmp_path: Path) -> None:
    model = stand_in(tmp_path)
    argv = ["llama-server", "-m", str(model.path), "--host", "127.0.0.1", "--port", "9080", "-c", "512"]
    name = state_name(model, argv, "b1")
    assert state_name(model, ["9081" if word == "9080" else word for word in argv], "b1") == name
    assert state_name(model, argv, "b2") != name
    assert state_name(model, [*argv, "-ctk", "f16"], "b1") != name
    os.utime(model.path, (1, 1))
    changed = state_name(model, argv, "b1")
    assert changed != name
    model.path.write_text("larger")
    os.utime(model.path, (1, 1))
    assert state_name(model, argv, "b1") not in (name, changed)
    model.path.unlink()
    assert state_name(model, argv, "b1")


def test_only_a_llama_server_that_is_told_to_has_a_folder_of_states(tmp_path: Path) -> None:
    model = replace(stand_in(tmp_path), keeps_state=True)
    argv = ["x", "--slot-save-path", "/a b"]
    assert slot_folder(model, argv) == Path("/a b")
    assert slot_folder(model, ["x"]) is None
    assert slot_folder(replace(model, keeps_state=False), argv) is None
    assert slot_folder(replace(model, backend=Backend.WHITEDWARF), argv) is None


@pytest.mark.parametrize(
    ("slots", "chosen"),
    [
        ([{"id": 0}, {"id": 1, "n_prompt_tokens": 9}, {"id": 2, "n_prompt_tokens": 3}], 1),
        ([{"id": 0, "is_processing": False}, {"id": 1, "is_processing": True}], None),
        ([], 0),
        ([1, {}, {"id": "x", "n_prompt_tokens": 5}], 0),
    ],
)
def test_the_fullest_slot_is_saved_unless_one_is_busy(slots: list[object], chosen: int | None) -> None:
    assert fullest(slots) == chosen


def test_old_states_make_room_and_files_of_others_stay(tmp_path: Path) -> None:
    for index in range(5):
        path = tmp_path / f"whitedwarf-{index}.slot"
        path.write_bytes(bytes(100))
        os.utime(path, (index, index))
    (tmp_path / "mine.bin").write_bytes(bytes(1000))
    prune(tmp_path, 250)
    assert {path.name for path in tmp_path.iterdir()} == {"mine.bin", "whitedwarf-3.slot", "whitedwarf-4.slot"}
    prune(tmp_path, 10)
    assert {path.name for path in tmp_path.iterdir()} == {"mine.bin", "whitedwarf-4.slot"}
