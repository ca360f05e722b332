import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import pytest

import whitedwarf
from whitedwarf.cli import main as main_module
from whitedwarf.cli.commands import COMMANDS, Command
from whitedwarf.errors import FileFormatError, UsageError

InProcess = Callable[[Sequence[str]], tuple[int, str, str]]


def modules_after(code: str, environment: dict[str, str]) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    return set(result.stdout.splitlines()[-1].split())


def test_importing_the_package_imports_no_numpy(environment: dict[str, str]) -> None:
    assert "numpy" not in modules_after("import whitedwarf", environment)


def test_top_level_help_imports_nothing_heavy(environment: dict[str, str]) -> None:
    loaded = modules_after("from whitedwarf.cli.main import main; assert main(['--help']) == 0", environment)
    assert not {"numpy", "cyclopts", "rich", "tokenizers", "inspect"} & loaded


def test_help_of_a_command_loads_no_kernels(environment: dict[str, str]) -> None:
    loaded = modules_after("from whitedwarf.cli.main import main; assert main(['run', '-h']) == 0", environment)
    assert not {"numpy", "tokenizers", "whitedwarf._native"} & loaded


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_help_lists_every_command(words: list[str], in_process: InProcess) -> None:
    code, out, _ = in_process(words)
    assert code == 0
    for command in COMMANDS:
        assert f"  {command.name} " in out
        assert command.summary in out


@pytest.mark.parametrize("words", [["gguf"], ["gguf", "--help"]])
def test_help_of_a_group_lists_its_commands(words: list[str], in_process: InProcess) -> None:
    code, out, _ = in_process(words)
    assert code == 0
    assert "gguf inspect" in out
    assert "perplexity" not in out


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_help(command: Command, in_process: InProcess) -> None:
    code, out, err = in_process([*command.name.split(" "), "--help"])
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: whitedwarf {command.name}")
    assert import_module(command.module).command.__doc__.split()[0] in out.splitlines()[2]


def test_version(in_process: InProcess) -> None:
    assert in_process(["--version"]) == (0, f"whitedwarf {whitedwarf.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rum"], "unknown command 'rum'; did you mean 'run'?"),
        (["gguf", "inspekt"], "unknown command 'gguf inspekt'; did you mean 'gguf inspect'?"),
        (["--metal-graph-generate"], "unknown command '--metal-graph-generate'; `whitedwarf --help` lists"),
        (["run", "--server"], "Unknown option: --server"),
        (["run", "--ctx", "0"], 'Invalid value "0" for --ctx. Must be >= 1.'),
        (["run", "--ctx", "many"], "Invalid value for --ctx"),
        (["run", "-m"], "Parameter -m requires an argument."),
        (["run", "--temp", "101"], "Must be <= 100"),
        (["run", "--temp", "-1"], "Must be >= 0"),
        (["run", "--top-p", "1.5"], "Must be <= 1"),
        (["run", "--min-p", "-0.1"], "Must be >= 0"),
        (["run", "--seed", "0"], "Must be >= 1"),
        (["run", "--kv-cache", "f8"], 'Choose from: "packed", "packed-f16", "f16", "f32"'),
        (["run", "-p", "a", "-p", "b"], "Parameter -p specified multiple times"),
        (["run", "-p", "a", "--prompt-file", "b"], "--prompt and --prompt-file exclude each other"),
        (["run", "--think", "--nothink", "-p", "a"], "--think and --nothink exclude each other"),
        (["run", "a", "b c"], "expected no more words, got a 'b c'. `whitedwarf run --help` lists the options."),
        (["run", "-m", "/nowhere.gguf", "-p", "a"], "model /nowhere.gguf (given with -m): expected a GGUF file"),
        (["tokens"], "no prompt: give one with --prompt"),
        (["tokens", "--prompt-file", "/nowhere.txt"], "cannot read /nowhere.txt"),
        (["logits", "--out", "x.npy"], "requires an argument"),
        (["gguf", "inspect"], "requires an argument"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_2(words: list[str], message: str, in_process: InProcess) -> None:
    code, out, err = in_process(words)
    assert (code, out) == (2, "")
    assert err.startswith("whitedwarf: ")
    assert err.count("\n") == 1
    assert message in err


def failing(error: BaseException) -> Callable[[list[str]], int]:
    def dispatch(words: list[str]) -> int:
        raise error

    return dispatch


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (FileFormatError("broken"), 1, "whitedwarf: broken\n"),
        (UsageError("wrong"), 2, "whitedwarf: wrong\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_exit_codes(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, in_process: InProcess
) -> None:
    monkeypatch.setattr(main_module, "_dispatch", failing(error))
    assert in_process([]) == (code, "", message)


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, in_process: InProcess) -> None:
    monkeypatch.setattr(main_module, "_dispatch", failing(ZeroDivisionError("bug")))
    with pytest.raises(ZeroDivisionError):
        in_process([])


def test_a_reader_that_leaves_early_is_no_noise(environment: dict[str, str]) -> None:
    script = "import sys; from whitedwarf.cli.main import main; sys.exit(main(['--help']))"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1


def test_a_terminal_without_the_characters_shows_question_marks(environment: dict[str, str]) -> None:
    words = [sys.executable, "-m", "whitedwarf", "tokens", "-p", "<｜User｜>"]
    result = subprocess.run(words, capture_output=True, env={**environment, "PYTHONIOENCODING": "ascii"}, timeout=60)
    assert result.returncode == 0
    assert b"<?User?>" in result.stdout


def test_another_interrupt_at_the_very_end_shows_no_traceback(environment: dict[str, str]) -> None:
    code = (
        "import atexit, os, signal, sys\n"
        "from whitedwarf.cli.main import main\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "sys.argv = ['whitedwarf', '--version']\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_a_text_without_an_end_is_refused(in_process: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whitedwarf.cli.prompt_text.MOST_BYTES", 1 << 20)
    code, _, err = in_process(["run", "--prompt-file", "/dev/zero"])
    assert (code, "more than 1 MiB" in err) == (1, True)
