import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pexpect
import pytest

Run = Callable[..., CompletedProcess[str]]
GREEDY = ("--nothink", "--temp", "0")
CAPITAL = "What is the capital of France?"


def test_a_prompt_is_answered_and_speeds_come_last(run: Run) -> None:
    result = run("run", *GREEDY, "-p", CAPITAL)
    assert result.returncode == 0
    assert result.stdout == "The capital of France is Paris.\n"
    notice, context, reading, speeds = result.stderr.splitlines()
    assert notice.startswith("whitedwarf: no model given, using nano (the bundled demonstration model")
    assert context.startswith("whitedwarf: context 32768 tokens (")
    assert reading == "reading 16/16 tokens (100.0%)"
    assert speeds.startswith("prefill: ")
    assert speeds.endswith(" t/s (16 and 7 tokens)")


def test_thoughts_are_shown_without_their_tags(run: Run, nano_path: Path) -> None:
    result = run("run", "-m", str(nano_path), "--temp", "0", "-p", "What is 17 + 25?")
    *thoughts, answer = result.stdout.splitlines()
    assert thoughts
    assert "think>" not in result.stdout
    assert answer == "17 + 25 = 42"
    assert "no model given" not in result.stderr


def test_a_prompt_file_and_standard_input_say_the_same(run: Run, tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").write_text(CAPITAL)
    from_file = run("run", *GREEDY, "--prompt-file", "prompt.txt")
    from_stdin = run("run", *GREEDY, "--prompt-file", "-", stdin=CAPITAL)
    assert from_file.stdout == from_stdin.stdout == "The capital of France is Paris.\n"


def test_a_rendered_prompt_is_not_wrapped(run: Run) -> None:
    prompt = f"<｜begin▁of▁sentence｜><｜User｜>{CAPITAL}<｜Assistant｜></think>"
    result = run("run", "--temp", "0", "-p", prompt)
    assert result.stdout == "The capital of France is Paris.\n"
    wrapped_tokens = 16 - len(["You", "are", "a", "helpful", "assistant"])
    assert int(result.stderr.split("reading ")[1].split("/")[0]) <= wrapped_tokens


def test_long_prompts_are_read_in_chunks_with_a_line_each(run: Run) -> None:
    result = run("run", *GREEDY, "-n", "1", "--prefill-chunk", "64", "-p", "one two three four five " * 20)
    reading = [line for line in result.stderr.splitlines() if line.startswith("reading ")]
    assert len(reading) >= 2
    assert reading[0].startswith("reading 64/")
    assert reading[-1].endswith("(100.0%)")


def test_no_more_than_the_asked_tokens_are_generated(run: Run) -> None:
    result = run("run", *GREEDY, "-n", "3", "-p", CAPITAL)
    assert result.stdout == "The capital of\n"
    assert result.stderr.splitlines()[-1].endswith("(16 and 3 tokens)")


def test_the_context_bounds_the_answer(run: Run) -> None:
    result = run("run", *GREEDY, "--ctx", "20", "-p", CAPITAL)
    assert result.stdout == "The capital of\n"  # 20 - 16 - 1 tokens


def test_equal_seeds_give_equal_answers(run: Run, babbler: Path) -> None:
    words = ("run", "-m", str(babbler), "--nothink", "-n", "12", "-p", "x", "--seed")
    first, second, other = (run(*words, seed).stdout for seed in ("7", "7", "8"))
    assert first == second != other


@pytest.mark.parametrize("arguments", [("--backend", "reference"), ("--kv-cache", "f32", "--quality"), ("-t", "1")])
def test_every_way_of_running_gives_the_answer(run: Run, arguments: tuple[str, ...]) -> None:
    assert run("run", *GREEDY, *arguments, "-p", CAPITAL).stdout == "The capital of France is Paris.\n"


def test_a_prompt_that_does_not_fit_is_refused(run: Run) -> None:
    result = run("run", *GREEDY, "--ctx", "8", "-p", CAPITAL)
    assert (result.returncode, result.stdout) == (1, "")
    assert "whitedwarf: the prompt has 16 tokens" in result.stderr
    assert "Traceback" not in result.stderr


def test_more_context_than_the_model_has_is_refused(run: Run) -> None:
    result = run("run", "--ctx", "40000", "-p", "x")
    assert result.returncode == 2
    assert "--ctx 40000: this model has a context of 32768" in result.stderr


def test_max_thinking_in_a_small_context_is_told(run: Run) -> None:
    result = run("run", "--think-max", "--temp", "0", "-n", "1", "-p", "x")
    assert "--think-max needs --ctx 393216 or more, this is 32768: using --think" in result.stderr


def test_the_environment_names_a_model(run: Run, babbler: Path) -> None:
    result = run("run", "--nothink", "-n", "1", "-p", "x", WHITEDWARF_MODEL=str(babbler))
    assert result.returncode == 0
    assert "using nano" not in result.stderr


def test_a_file_that_is_no_model_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "junk.gguf").write_bytes(b"junk" * 100)
    result = run("run", "-m", "junk.gguf", "-p", "x")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert result.stderr.startswith("whitedwarf: junk.gguf")


def spawn(environment: dict[str, str], *arguments: str) -> "pexpect.spawn[str]":
    words = ["-m", "whitedwarf", *arguments]
    return pexpect.spawn(sys.executable, words, env=environment, encoding="utf-8", timeout=60, dimensions=(24, 200))


def test_ctrl_c_in_one_shot_exits_130(environment: dict[str, str], babbler: Path) -> None:
    child = spawn(environment, "run", "-m", str(babbler), "--nothink", "--seed", "1", "-p", "go")
    child.expect("100.0%")
    child.expect("[a-z]")
    child.sendintr()
    child.expect("generation: ")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert "Traceback" not in child.before


def test_on_a_terminal_thoughts_are_grey_and_progress_is_one_line(environment: dict[str, str]) -> None:
    child = spawn(environment, "run", "--temp", "0", "-p", "What is 17 + 25?")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert child.before.count("\x1b[90m") >= 2
    assert "\r\x1b[Kreading 94/94 tokens (100.0%)\r\x1b[K" in child.before
    assert "17 + 25 = 42" in child.before.replace("\x1b[0m", "").splitlines()


def test_a_second_ctrl_c_does_not_wait_for_the_engine(environment: dict[str, str]) -> None:
    script = Path(__file__).with_name("slow_answer.py")
    folders = os.pathsep.join([str(Path(__file__).parents[1]), environment["PYTHONPATH"]])
    child = pexpect.spawn(sys.executable, [str(script)], env={**environment, "PYTHONPATH": folders}, timeout=30)
    child.expect("running")
    child.sendintr()
    time.sleep(0.3)
    child.sendintr()
    start_s = time.monotonic()
    child.expect(pexpect.EOF)
    child.close()
    assert time.monotonic() - start_s < 40
    assert child.signalstatus == signal.SIGINT


def test_a_reader_that_leaves_early_ends_the_answer_quietly(environment: dict[str, str], babbler: Path) -> None:
    words = [sys.executable, "-m", "whitedwarf", "run", "-m", str(babbler), "--nothink", "--seed", "1", "-p", "go"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    errors = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait() == 1
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors


def test_cpu_is_short_for_the_backend_and_contradicts_others(run: Run) -> None:
    result = run("run", "--cpu", "--backend", "reference", "-p", "Hello")
    assert result.returncode == 2
    assert "--cpu and --backend reference contradict each other" in result.stderr
    assert run("run", *GREEDY, "--cpu", "-p", CAPITAL).stdout == "The capital of France is Paris.\n"
