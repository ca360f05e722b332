import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth import synthesise
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = (sys.executable, "-m", "whitedwarf")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the user's model, history or colours."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    for variable in ("WHITEDWARF_MODEL", "NO_COLOR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the command line in a process of its own, in an empty folder."""

    def run(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=tmp_path,
            env={**_environment(), **environment},
            timeout=120,
        )

    return run


def _environment() -> dict[str, str]:
    source = str(Path(__file__).parents[2] / "src")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))}


@pytest.fixture
def environment() -> dict[str, str]:
    return _environment()


@pytest.fixture(scope="session")
def nano_path() -> Path:
    return bundled_model()


@pytest.fixture(scope="session")
def nano_tokenizer(nano_path: Path) -> Tokenizer:
    with open_gguf(nano_path) as gguf:
        return Tokenizer.from_metadata(gguf.metadata)


@pytest.fixture(scope="session")
def babbler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model with random weights: its answers do not end by themselves."""
    path = tmp_path_factory.mktemp("babbler") / "babbler.gguf"
    synthesise(path, "tiny", layers=2, quant="q8")
    return path


@pytest.fixture
def in_process(capsys: pytest.CaptureFixture[str]) -> Callable[[Sequence[str]], tuple[int, str, str]]:
    """Run the command line here: exit code, stdout, stderr."""
    from whitedwarf.cli.main import main

    def call(words: Sequence[str]) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
