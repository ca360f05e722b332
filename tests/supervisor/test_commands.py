"""The words that run a model's process."""

import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from supervisor.test_config_file import one
from whitedwarf.supervisor.arguments import has_option, option_of, whole_of
from whitedwarf.supervisor.commands import child_command, folder_name, state_folders

STATE = Path("/state")


def test_our_engine_is_run_by_this_python(tmp_path: Path) -> None:
    model = one(
        tmp_path, {"path": "/m.gguf", "alias": "flash", "ctxSize": 9000}, whitedwarf={"args": ["--threads", "4"]}
    )
    (folder,) = state_folders(model, STATE)
    assert child_command(model, 9085, STATE) == [
        *(sys.executable, "-P", "-m", "whitedwarf", "serve", "-m", "/m.gguf", "--ctx", "9000", "--threads", "4"),
        *("--host", "127.0.0.1", "--port", "9085", "--alias", "flash", "--drain-s", "1", "--kv-disk-dir", str(folder)),
    ]
    assert folder.is_relative_to("/state/kv")


def test_llama_server_gets_its_port_alias_and_a_place_for_slots(tmp_path: Path) -> None:
    model = one(tmp_path, {"path": "/m.gguf", "args": ["-fa", "on"]}, llamaServer={"args": ["-ngl", "99"]})
    (folder,) = state_folders(model, STATE)
    assert child_command(model, 9085, STATE) == [
        *("llama-server", "-ngl", "99", "-m", "/m.gguf", "-fa", "on"),
        *("--host", "127.0.0.1", "--port", "9085", "--alias", "m", "--slot-save-path", str(folder)),
    ]
    assert folder.is_relative_to("/state/slots")


def test_what_arguments_say_already_is_not_said_again(tmp_path: Path) -> None:
    llama = one(tmp_path, {"args": ["-m", "x.gguf", "-a", "big,b", "--slot-save-path", "/s"]}, llamaServer={})
    assert (llama.alias, llama.path) == ("big", tmp_path / "x.gguf")
    assert child_command(llama, 1, STATE)[-4:] == ["--host", "127.0.0.1", "--port", "1"]
    ours = one(tmp_path, {"path": "x", "args": ["--alias=a", "--drain-s", "9", "--kv-disk-dir", "/k", "--ctx", "5"]})
    assert (ours.alias, ours.context_size) == ("a", 5)
    assert child_command(ours, 1, STATE)[-4:] == ["--host", "127.0.0.1", "--port", "1"]
    assert state_folders(llama, STATE) == state_folders(ours, STATE) == ()


def test_a_model_that_keeps_no_state_gets_no_place_for_it(tmp_path: Path) -> None:
    for top in ({"llamaServer": {}}, {}):
        model = one(tmp_path, {"path": "/m.gguf", "keepsState": False}, **top)
        assert state_folders(model, STATE) == ()
        assert "/state" not in " ".join(child_command(model, 1, STATE))


def test_a_program_may_be_several_words(tmp_path: Path) -> None:
    model = one(tmp_path, {"path": "/m.gguf", "bin": ["python3", "fake.py"]}, llamaServer={"bin": "x"})
    assert child_command(model, 1, STATE)[:2] == ["python3", "fake.py"]


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_key_has_a_folder_of_its_own(key: str, other: str) -> None:
    name = folder_name(key)
    assert name.isascii()
    assert Path(name).name == name
    assert len(name) < 60
    assert not name.startswith((".", "-"))
    assert (folder_name(key).lower() == folder_name(other).lower()) == (key == other)


def test_options_are_found_in_both_forms() -> None:
    words = ["-c", "1", "--ctx-size=2", "-x", "-c"]
    assert has_option(words, ("-c",))
    assert not has_option(words, ("-cc",))
    assert option_of(words[:3], ("-c", "--ctx-size")) == "2"
    assert option_of(words, ("-c", "--ctx-size")) is None
    assert whole_of(["-c", "4k"], ("-c",)) is None
