"""`whitedwarf eval --url` against a real server with nano: the same answers as in this process."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

Call = Callable[[Sequence[str]], tuple[int, str, str]]
CASES = str(Path(__file__).parents[1] / "golden" / "evals" / "cases.jsonl")
EXAM = ["eval", "--plain", "--cases", CASES, "-n", "200"]
NO_LIMITS = ["--soft-limit-reply-budget", "0", "--hard-limit-reply-budget", "0"]  # a server has none
PATIENCE_S = 60


@pytest.fixture(scope="module")
def nano_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    key = tmp_path_factory.mktemp("keys") / "key"
    key.write_text("secret\n")
    key.chmod(0o600)
    words = [sys.executable, "-m", "whitedwarf", "serve", "--port", "0", "--api-key-file", str(key)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            found = None
            while found is None and (line := server.stderr.readline()):
                found = re.search(r"served at (http://\S+)", line)
            assert found is not None
            yield found[1]
        finally:
            server.terminate()
            server.communicate(timeout=PATIENCE_S)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAM_KEY", "secret")


def said(out: str) -> list[tuple[Any, ...]]:
    """Counts only: calls, which nano makes unasked, are no text for a server's clients."""
    cases = json.loads(out.splitlines()[-1])["cases"]
    return [tuple(case[name] for name in ("id", "prompt_tokens", "generated_tokens")) for case in cases]


# In thoughts a server draws at temperature 1, as DeepSeek's own does, whatever was asked for.
@pytest.mark.parametrize(
    "words", [["--nothink"], ["--temp", "1", "--seed", "3"], ["--think", "--temp", "1", "--seed", "8"]]
)
def test_a_server_answers_as_an_engine_here_does(words: list[str], in_process: Call, nano_url: str) -> None:
    server = ["--url", nano_url, "--api-key-env", "EXAM_KEY"]
    _, theirs, err = in_process([*EXAM, *words, *server, "--parallel", "4"])
    _, ours, _ = in_process([*EXAM, *words, *NO_LIMITS])
    assert said(theirs) == said(ours)
    assert "thoughts are limited by --tokens alone" in err
    assert json.loads(theirs.splitlines()[-1])["target"]["model"] == "whitedwarf-nano"


def test_a_trace_of_a_server_is_regraded(in_process: Call, nano_url: str, tmp_path: Path) -> None:
    path = str(tmp_path / "trace")
    in_process([*EXAM, "--url", nano_url, "--api-key-env", "EXAM_KEY", "--trace", path])
    code, out, _ = in_process(["eval", "--regrade-trace", path])
    assert (code, "changed 0" in out) == (0, True)


def test_a_wrong_key_ends_the_exam(in_process: Call, nano_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXAM_KEY", "wr0ng")
    code, _, err = in_process([*EXAM, "--url", nano_url, "--api-key-env", "EXAM_KEY"])
    assert (code, "answers 401" in err) == (1, True)
    code, out, err = in_process([*EXAM, "--url", nano_url, "--api-key-env", "EXAM_KEY", "--model", "whitedwarf-nano"])
    assert (code, "answers 401" in err) == (1, True)
    assert "not asked 3" in out
    assert "wr0ng" not in out + err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--hard-limit-reply-budget", "9"], "--hard-limit-reply-budget is for a model in this process"),
        (["--ctx", "999"], "--ctx is for a model in this process"),
        (["--power", "50"], "--power is for a model in this process"),
        (["--dir-steering-file", "x"], "--dir-steering-… is for a model in this process"),
        (["--api-key-env", "NO_SUCH_KEY"], "there is no such variable"),
        (["--extra-body", "[]"], "expected a JSON object"),
    ],
)
def test_what_only_an_engine_can_do_is_refused(words: list[str], told: str, in_process: Call) -> None:
    code, _, err = in_process([*EXAM, "--url", "http://127.0.0.1:1", *words])
    assert (code, told in err) == (2, True), err
