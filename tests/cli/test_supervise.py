"""`whitedwarf supervise CONFIG`, without running it: what it says about a config."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cli.conftest import Run
from whitedwarf.supervisor.__main__ import main as lean

Call = Callable[[Sequence[str]], tuple[int, str, str]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    path = tmp_path / "models.json"
    path.write_text('{"models": [{"name": "m", "path": "m.gguf"}, {"name": "e", "url": "http://127.0.0.1:1/v1"}],}')
    return path


def test_the_resolved_models_are_dumped_as_json(config: Path, in_process: Call) -> None:
    code, out, err = in_process(["supervise", str(config), "--dump-models"])
    assert (code, err) == (0, "")
    models = json.loads(out)["models"]
    assert [(model["name"], model["publicPort"]) for model in models] == [("m", 8080), ("e", 8081)]
    assert in_process(["supervise", "--dump-models", str(config)])[1] == out


def test_a_config_without_faults_is_told_by_its_ports(config: Path, in_process: Call) -> None:
    assert in_process(["supervise", str(config), "--check"]) == (0, "8080  m\n8081  e\n", "")


def test_what_will_probably_not_do_what_was_meant_is_a_warning(config: Path, in_process: Call) -> None:
    (config.parent / "m.gguf").unlink()
    code, out, err = in_process(["supervise", str(config), "--check"])
    assert (code, out) == (0, "8080  m\n8081  e\n")
    assert f"warning: m: there is no file {config.parent / 'm.gguf'}" in err


@pytest.mark.parametrize("flags", [(), ("--check",), ("--dump-models",)])
def test_a_wrong_config_is_told_in_one_line_with_2(flags: tuple[str, ...], config: Path, in_process: Call) -> None:
    config.write_text('{"models": [{"name": "m", "pth": "m.gguf"}]}')
    code, out, err = in_process(["supervise", str(config), *flags])
    assert (code, out) == (2, "")
    assert err == f"whitedwarf: {config}: models[0].pth is unknown here; did you mean 'path'?\n"


def test_a_file_of_keys_that_cannot_be_used_is_told_before_anything_runs(config: Path, in_process: Call) -> None:
    config.write_text('{"models": [{"name": "m", "path": "m.gguf"}], "apiKeyFile": "none"}')
    for flags in (("--check",), ()):
        code, _, err = in_process(["supervise", str(config), *flags])
        assert (code, f"{config}: apiKeyFile {config.parent / 'none'}: expected a readable" in err) == (2, True), err


def test_the_process_that_stays_has_none_of_the_command_lines_libraries(environment: dict[str, str]) -> None:
    code = "import sys, whitedwarf.supervisor.__main__, whitedwarf.supervisor.dump; print(*sys.modules)"
    loaded = set(subprocess.check_output([sys.executable, "-c", code], text=True, env=environment).split())
    assert loaded & {"cyclopts", "rich", "numpy", "asyncio", "tomllib", "whitedwarf.cli"} == set()


@pytest.mark.parametrize("words", [[], ["a", "b"], ["/no/such/models.json"]])
def test_the_lean_command_tells_what_is_wrong_too(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert lean(words) == 2
    assert "expected" in capsys.readouterr().err


def test_a_unit_is_shown_before_it_is_written(config: Path, home: Path, in_process: Call) -> None:
    words = ["supervise", str(config), "--install", "systemd", "--unit-name", "wd"]
    code, shown, err = in_process(words)
    unit = home / ".config/systemd/user/wd.service"
    assert (code, err, unit.exists(), "not written yet" in shown) == (0, "", False, True)
    code, said, err = in_process([*words, "--yes"])
    assert (code, err) == (0, "")
    assert said.startswith(f"# written: {unit}\n# to start it:\nsystemctl --user daemon-reload\n")
    assert unit.read_text() in shown
    assert f'"{config}"' in unit.read_text()
    assert [path.name for path in unit.parent.iterdir()] == ["wd.service"]


def test_a_unit_that_cannot_be_written_loses_nothing(config: Path, home: Path, in_process: Call) -> None:
    (home / "Library").write_text("a file in the folder's place")
    code, _, err = in_process(["supervise", str(config), "--install", "launchd", "--yes"])
    assert (code, "cannot make the folder" in err) == (1, True)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--yes"], "--yes belongs to --install"),
        (["--install", "cron"], "cron"),
        (["--install", "systemd", "--unit-name", "a/b"], "--unit-name 'a/b'"),
    ],
)
def test_an_installation_that_makes_no_sense_is_told(
    flags: list[str], says: str, config: Path, in_process: Call
) -> None:
    code, out, err = in_process(["supervise", str(config), *flags])
    assert (code, out, says in err) == (2, "", True), err


@pytest.mark.parametrize("words", [["supervise", "--dump-models"], ["export-routes", "--for", "pi"]])
def test_what_programs_read_is_utf8_in_every_locale(words: list[str], tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "ä 模"
    folder.mkdir()
    (folder / "models.json").write_text('{"models": [{"name": "模型", "path": "m.gguf"}]}', encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    said = [run(*words, f"{folder.name}/models.json", **locale) for locale in (ascii_only, {"PYTHONUTF8": "1"})]
    assert said[0].stdout == said[1].stdout
    assert "模型" in json.dumps(json.loads(said[0].stdout), ensure_ascii=False)
