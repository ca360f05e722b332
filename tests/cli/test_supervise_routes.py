"""`whitedwarf export-routes`: to the terminal or to a file of the owner's, whole or not at all."""

import json
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml

Call = Callable[[Sequence[str]], tuple[int, str, str]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "models.json"
    path.write_text('{"models": [{"name": "m", "path": "m.gguf"}, {"name": "n", "path": "n.gguf"}]}')
    return path


@pytest.mark.parametrize("client", ["dsh", "opencode", "codex", "pi", "claude"])
def test_every_client_is_told_both_ports(client: str, config: Path, in_process: Call) -> None:
    code, out, err = in_process(["export-routes", str(config), "--for", client])
    assert (code, err) == (0, "")
    assert "http://127.0.0.1:8080" in out
    assert "http://127.0.0.1:8081" in out


def test_a_patch_names_a_default_when_it_is_asked_to(config: Path, in_process: Call) -> None:
    words = ["export-routes", str(config), "--for", "dsh", "--patch-file"]
    rows = [row["id"] for row in yaml.safe_load(in_process(words)[1])]
    assert rows == ["llm-pi-ai", "compaction-basic"]
    last = yaml.safe_load(in_process([*words, "--default", "n"])[1])[-1]
    assert last == {"id": "agent-default-model", "config": {"provider": "local-n", "model": "n"}}


def test_a_file_is_written_for_its_owner_alone(config: Path, in_process: Call) -> None:
    out = config.parent / "routes.json"
    out.write_text("something old and longer than what comes" * 100)
    out.chmod(0o666)
    assert in_process(["export-routes", str(config), "--for", "pi", "--out", str(out)]) == (0, "", "")
    assert json.loads(out.read_text())["providers"]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert sorted(path.name for path in config.parent.iterdir()) == ["models.json", "routes.json"]


def test_the_config_is_never_written_over(config: Path, in_process: Call) -> None:
    before = config.read_text()
    code, _, err = in_process(["export-routes", str(config), "--for", "pi", "--out", str(config)])
    assert (code, "which is being read" in err, config.read_text()) == (2, True, before)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--for", "pi", "--patch-file"], "--patch-file is for --for dsh only"),
        (["--for", "dsh", "--default", "m"], "add --patch-file"),
        (["--for", "codex", "--default", "x"], "there is no model 'x'; known are m, n"),
        (["--for", "vim"], "vim"),
        ([], "--for"),
    ],
)
def test_what_makes_no_sense_is_told_and_nothing_is_written(
    flags: list[str], says: str, config: Path, in_process: Call
) -> None:
    code, out, err = in_process(["export-routes", str(config), *flags, "--out", str(config.parent / "out")])
    assert (code, out, says in err) == (2, "", True), err
    assert not (config.parent / "out").exists()


def test_a_key_that_is_asked_for_is_told_by_the_variable_that_names_it(config: Path, in_process: Call) -> None:
    keys = config.parent / "keys"
    keys.write_text("secret-of-mine\n")
    keys.chmod(0o600)
    config.write_text(config.read_text().replace("{", '{"apiKeyFile": "keys", ', 1))
    code, out, err = in_process(["export-routes", str(config), "--for", "dsh"])
    assert (code, "secret-of-mine" in out + err) == (0, False)
    assert f"set WHITEDWARF_API_KEY to one of those in {keys}" in err
