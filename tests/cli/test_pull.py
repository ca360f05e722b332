"""`whitedwarf pull`, as a user sees it."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fakes.hub import COMMIT, REPO, FakeHub, running
from whitedwarf.cli.transfer_progress import TransferProgress, TransferRate, progress_text, time_text
from whitedwarf.weights.targets import TARGETS

InProcess = Callable[[Sequence[str]], tuple[int, str, str]]
DATA = bytes(range(256)) * 1200
FILES = {
    "one.gguf": DATA,
    "two-00001-of-00002.gguf": DATA[:1000],
    "two-00002-of-00002.gguf": DATA[:500],
    "README.md": b"# Models\n",
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    with running(FakeHub(dict(FILES), small={"README.md"})) as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.url)
        for name in (
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "HF_TOKEN_PATH",
            "HF_HOME",
            "XDG_CACHE_HOME",
            "DS4_GGUF_DIR",
        ):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.chdir(tmp_path)
        yield fake


def test_a_file_lands_in_the_folder_and_its_path_on_stdout(hub: FakeHub, in_process: InProcess) -> None:
    code, out, err = in_process(["pull", f"{REPO}/one.gguf"])
    assert (code, out) == (0, "gguf/one.gguf\n")
    assert Path("gguf/one.gguf").read_bytes() == DATA
    assert "gguf/one.gguf: 307.2 kB from org/models" in err
    assert "fetching 100% of 307.2 kB" in err
    assert not Path("ds4flash.gguf").is_symlink()


def test_what_is_there_is_not_fetched_again(hub: FakeHub, in_process: InProcess) -> None:
    in_process(["pull", f"{REPO}/one.gguf"])
    asked = len(hub.ranges())
    code, out, err = in_process(["pull", f"{REPO}/one.gguf"])
    assert (code, out, len(hub.ranges())) == (0, "gguf/one.gguf\n", asked)
    assert "is there already" in err
    Path("gguf/one.gguf").write_bytes(DATA[::-1])
    assert in_process(["pull", f"{REPO}/one.gguf"])[0] == 0
    code, _, err = in_process(["pull", f"{REPO}/one.gguf", "--check"])
    assert (code, "its bytes differ" in err) == (1, True)


def test_a_pattern_fetches_all_shards_and_the_link_means_the_first(hub: FakeHub, in_process: InProcess) -> None:
    code, out, _ = in_process(["pull", f"{REPO}/two*", "--to", "models", "--link"])
    assert (code, out.splitlines()) == (0, [f"models/two-0000{number}-of-00002.gguf" for number in (1, 2)])
    assert str(Path("ds4flash.gguf").readlink()) == "models/two-00001-of-00002.gguf"


def test_published_models_become_the_default_unless_told_not_to(
    hub: FakeHub, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = TARGETS["q2-imatrix"].patterns[0]
    monkeypatch.setattr("fakes.hub.REPO", TARGETS["q2-imatrix"].repo)
    hub.files = {name: DATA, TARGETS["mtp"].patterns[0]: b"drafts"}
    assert in_process(["pull", "q2-imatrix", "--no-link"])[0] == 0
    assert not Path("ds4flash.gguf").is_symlink()
    code, out, err = in_process(["pull", "q2-imatrix"])
    assert (code, out) == (0, f"gguf/{name}\n")
    assert "commands without -m use it" in err
    assert Path("ds4flash.gguf").read_bytes() == DATA
    code, _, err = in_process(["pull", "mtp"])
    assert (code, "a draft block" in err) == (0, True)
    assert Path("ds4flash.gguf").read_bytes() == DATA


def test_the_environment_moves_the_folder(
    hub: FakeHub, in_process: InProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DS4_GGUF_DIR", str(tmp_path / "elsewhere"))
    assert in_process(["pull", f"{REPO}/one.gguf"])[1] == f"{tmp_path}/elsewhere/one.gguf\n"


def test_json_says_what_came_from_where(hub: FakeHub, in_process: InProcess) -> None:
    code, out, _ = in_process(["pull", f"{REPO}/one.gguf", "--json"])
    assert code == 0
    assert json.loads(out) == {
        "is_done": True,
        "files": [
            {
                "path": "gguf/one.gguf",
                "size_bytes": len(DATA),
                "missing_bytes": len(DATA),
                "was_present": False,
                "digest": hub.digest("one.gguf"),
                "repo": REPO,
                "commit": COMMIT,
                "file": "one.gguf",
            }
        ],
    }


def test_a_dry_run_fetches_and_makes_nothing(hub: FakeHub, in_process: InProcess, tmp_path: Path) -> None:
    code, out, err = in_process(["pull", f"{REPO}/two*", "--dry-run"])
    assert (code, out, hub.ranges()) == (0, "", [])
    assert err.count(" from org/models") == 2
    assert list(tmp_path.iterdir()) == []


def test_too_little_disk_is_told_before(hub: FakeHub, in_process: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 100_000})())
    code, _, err = in_process(["pull", f"{REPO}/one.gguf"])
    assert code == 1
    assert "307.2 kB are still to be fetched, 100.0 kB are free, 207.2 kB are missing; make room" in err
    assert hub.ranges() == []


def test_a_missing_token_is_told_and_a_given_one_used(
    hub: FakeHub, in_process: InProcess, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    hub.token = "hf_secret"
    code, _, err = in_process(["pull", f"{REPO}/one.gguf"])
    assert code == 1
    assert "give it as HF_TOKEN or --token" in err
    code, _, err = in_process(["pull", f"{REPO}/one.gguf", "--token", "hf_wrong"])
    assert (code, "refused the token from --token" in err, "hf_wrong" in err) == (1, True, False)
    (home / ".cache" / "huggingface").mkdir(parents=True)
    (home / ".cache" / "huggingface" / "token").write_text("hf_secret\n", encoding="utf-8")
    assert in_process(["pull", f"{REPO}/one.gguf"])[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pull", "q2-imatrx"], "did you mean 'q2-imatrix'?"),
        (["pull", f"{REPO}/nothing.bin"], "org/models has no file nothing.bin; it has"),
        (["pull", REPO], "org/models holds 2 models; say which"),
        (["pull", f"{REPO}/one.gguf", "--link", "--no-link"], "contradict each other"),
    ],
)
def test_wrong_arguments_are_told(hub: FakeHub, in_process: InProcess, words: list[str], message: str) -> None:
    code, out, err = in_process(words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_without_a_target_the_targets_are_listed_and_help_names_them_all(in_process: InProcess) -> None:
    code, out, _ = in_process(["pull"])
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, list(TARGETS))
    text = in_process(["pull", "--help"])[1]
    assert all(re.search(rf"(?<![\w-]){name}(?![\w-])", text) for name in TARGETS)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_process_that_is_ended_leaves_a_part_and_the_next_goes_on(
    hub: FakeHub, environment: dict[str, str], tmp_path: Path, in_process: InProcess, number: signal.Signals, code: int
) -> None:
    hub.gate = threading.Event()
    words = [sys.executable, "-m", "whitedwarf", "pull", f"{REPO}/one.gguf"]
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            part = _wait_for_part(hub, process, tmp_path)
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    hub.gate.set()
    assert (process.returncode, out, b"Traceback" in err) == (code, b"", False)
    there = part.stat().st_size
    assert 0 < there < len(DATA)
    assert sorted(tmp_path.glob("**/*")) == [tmp_path / "gguf", part]
    assert in_process(["pull", f"{REPO}/one.gguf"])[0] == 0
    assert hub.ranges()[-1] == f"bytes={there}-{len(DATA) - 1}"
    assert Path("gguf/one.gguf").read_bytes() == DATA


def _wait_for_part(hub: FakeHub, process: "subprocess.Popen[bytes]", folder: Path) -> Path:
    assert hub.on_bytes.wait(60)
    _wait_for_line(process, b"fetching")  # then a first piece has been written
    return next(folder.glob("gguf/*.part"))


def _wait_for_line(process: "subprocess.Popen[bytes]", text: bytes) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    pytest.fail(f"the process ended without saying {text!r}")


def test_the_rate_is_that_of_the_last_moments() -> None:
    rate = TransferRate()
    rate.add(0.0, 0)
    assert rate.bytes_per_s == 0
    for second in range(1, 41):
        rate.add(float(second), 100 * second if second < 20 else 2000 + 1000 * (second - 20))
    assert rate.bytes_per_s == 1000
    rate.add(41.0, 0)  # begun anew
    assert rate.bytes_per_s == 0


def test_progress_in_words() -> None:
    assert progress_text("fetching", 9_700_000_000, 80_800_000_000, 0.0) == "fetching 12% of 80.8 GB"
    text = progress_text("fetching", 9_700_000_000, 80_800_000_000, 95_100_000.0)
    assert text == "fetching 12% of 80.8 GB, 95.1 MB/s, 12 min left"
    assert [time_text(seconds) for seconds in (0, 99, 600, 7500)] == ["0 s", "99 s", "10 min", "2 h 05 min"]
    assert progress_text("checking", 0, 0, 0.0) == "checking 100% of 0 bytes"


def test_progress_is_a_line_at_each_twentieth_and_one_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    progress = TransferProgress(1000, lambda: now_s)
    for done in range(101):
        now_s += 1
        progress.show("fetching", done)
    progress.finish()
    shares = [line.split(" of ")[0] for line in capsys.readouterr().err.splitlines()]
    assert shares == ["fetching 0%", "fetching 5%", "fetching 10%"]


def test_two_processes_at_once_fetch_once_and_both_succeed(
    hub: FakeHub, environment: dict[str, str], tmp_path: Path
) -> None:
    hub.gate = threading.Event()
    words = [sys.executable, "-m", "whitedwarf", "pull", f"{REPO}/one.gguf"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, **streams) as first:
        try:
            _wait_for_part(hub, first, tmp_path)
            with subprocess.Popen(words, cwd=tmp_path, env=environment, **streams) as second:
                try:
                    _wait_for_line(second, b"another process is fetching it")
                    hub.gate.set()
                    assert second.communicate(timeout=60)[0] == b"gguf/one.gguf\n"
                finally:
                    second.kill()
            assert first.communicate(timeout=60)[0] == b"gguf/one.gguf\n"
        finally:
            first.kill()
    assert (first.returncode, second.returncode) == (0, 0)
    assert len(hub.ranges()) == 1
    assert list(tmp_path.glob("**/*.*")) == [tmp_path / "gguf" / "one.gguf"]


def test_the_page_names_all_targets_and_only_flags_that_exist(in_process: InProcess) -> None:
    page = (Path(__file__).parents[2] / "docs" / "pull.md").read_text(encoding="utf-8")
    help_text = in_process(["pull", "--help"])[1]
    assert [name for name in TARGETS if f"`{name}`" not in page] == []
    assert {flag for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", page) if flag not in help_text} == set()
