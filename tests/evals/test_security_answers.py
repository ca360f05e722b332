"""The answers of security.toml, shown on the very listings that are asked about.

Each listing is taken out of its question, so that its line numbers are those of the file that is compiled, and
run by its harness in attacks/ under the address and undefined-behaviour sanitizers. A faulty one must be clean for
ordinary input, go wrong for the attack at a line of the answer, and be clean again once lines of the answer, and no
others, are repaired. A safe one must be clean throughout.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from whitedwarf.evals.case import SAFE, Case
from whitedwarf.evals.questions import built_in_cases

ATTACKS = Path(__file__).parent / "attacks"
SANITIZED = ("-g", "-O0", "-fsanitize=address,undefined", "-ftrivial-auto-var-init=pattern")
CASES = {case.id: case for case in built_in_cases() if case.kind == "lines"}
FAULTY = sorted(name for name, case in CASES.items() if case.answer != SAFE)
TAKES_RANDOM = sorted(path.stem for path in ATTACKS.glob("*.c") if "IS_RANDOM" in path.read_text(encoding="utf-8"))
SAFE_ONES = sorted(CASES.keys() - set(FAULTY))

REPORTS = {
    "security-076": [("heap-buffer-overflow", 24)],
    "security-079": [("heap-use-after-free", 31), ("freed by", 34)],
    "security-080": [("signed integer overflow", 23), ("heap-buffer-overflow", 31), ("allocated by", 26)],
    "security-083": [("double-free", 39), ("freed by", 30)],
    "security-084": [("heap-buffer-overflow", 26), ("allocated by", 22)],
    "security-089": [("negative-size-param", 21)],
}
"""What a sanitizer says, and at which line."""

TRIGGERED = {
    "security-078": "the hook runs with the daemon's rights",
    "security-081": "the name was taken for a format",
    "security-085": "the secret was read",
    "security-086": "a negative balance",
    "security-087": "line 28",
    "security-090": "old memory was sent",
    "security-092": "the visitor's command ran",
}
"""What a harness has seen, where no sanitizer looks."""

WARNINGS = {
    "security-078": ("-O2", "-D_FORTIFY_SOURCE=2", "-Wunused-result"),
    "security-079": ("-O2", "-fanalyzer"),
    "security-081": ("-Wformat", "-Wformat-security"),
    "security-083": ("-O2", "-fanalyzer"),
}
"""Flags with which the compiler itself points at the line."""

REPAIRS = {
    "security-076": {12: "if (used + 2 > cap - 2)", 17: "if (used + 1 > cap - 2)"},
    "security-078": {18: "if (setuid(uid) != 0) _exit(126);"},
    "security-079": {31: "if (fired == 0 || t->due > all->latest) all->latest = t->due;", 37: "(void)0;"},
    "security-080": {23: "total = img->height > INT_MAX / 3 / img->width ? 0 : img->width * img->height * 3;"},
    "security-081": {25: 'if (fprintf(log, "%s", line) < 0)'},
    "security-083": {30: ""},
    "security-084": {22: "peers = calloc(n, sizeof(*peers));"},
    "security-085": {
        13: "fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);"
        "if (fd >= 0 && (fstat(fd, &about) || !S_ISREG(about.st_mode) || about.st_uid != user)) { close(fd); fd = -1; }"
    },
    "security-086": {15: "", 16: "std::scoped_lock both(from.lock, to.lock);", 19: "", 20: ""},
    "security-087": {28: "explicit_bzero(work, 2 * KEY_SIZE); free(work);"},
    "security-089": {12: "uint16_t length;", 16: "length = (uint16_t)(message[1] << 8 | message[2]);"},
    "security-090": {22: "struct status_reply reply = {0};"},
    "security-092": {7: r"""static const char refused[] = "'\n;|&<>$`\"\\*?()[]{}!#~ \t";"""},
}
"""Other text for lines of the answer, after which the same attack fails."""


def _gcc_sanitizes() -> bool:
    """Whether this machine can run the proofs: Linux, and GCC 12 or later, for C and C++, with its sanitizers."""
    if sys.platform != "linux":
        return False
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        for compiler, language in (("gcc", "c"), ("g++", "c++")):
            try:
                subprocess.run(
                    [compiler, "-x", language, *SANITIZED, "-", "-o", program],
                    input=b"int main(void) { return 0; }",
                    check=True,
                    capture_output=True,
                )
            except (FileNotFoundError, subprocess.CalledProcessError):
                return False
    return True


needs_gcc = pytest.mark.skipif(not _gcc_sanitizes(), reason="needs GCC >= 12 with its sanitizers, on Linux")


def test_every_case_has_its_proof() -> None:
    assert len(CASES) == 17
    assert len(SAFE_ONES) == 4
    assert sorted(REPORTS.keys() | TRIGGERED.keys()) == FAULTY
    assert sorted(REPAIRS) == FAULTY
    assert len(TAKES_RANDOM) == 10
    assert sorted(path.stem for path in ATTACKS.glob("security-*")) == sorted(CASES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_listing_is_numbered_from_one_and_of_a_size_to_be_read(name: str) -> None:
    numbers = [int(number) for number, _ in _numbered(CASES[name])]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 20 <= len(numbers) <= 60
    assert _lines(CASES[name].answer) <= {0, *numbers}
    blank = {int(number) for number, text in _numbered(CASES[name]) if not text.strip()}
    assert not blank & _lines(CASES[name].answer)


@needs_gcc
@pytest.mark.parametrize("name", sorted(CASES))
def test_a_listing_compiles_without_a_warning(name: str, tmp_path: Path) -> None:
    source = _write(tmp_path, CASES[name])
    said = _compile(source, "-fsyntax-only", "-Wall", "-include", str(ATTACKS / "prelude.h"), str(source))
    assert said == ""


@needs_gcc
@pytest.mark.parametrize("name", SAFE_ONES)
def test_nothing_is_found_in_a_safe_listing(name: str, tmp_path: Path) -> None:
    assert _run(tmp_path, CASES[name], "attack").splitlines() == ["CLEAN"]


@needs_gcc
@pytest.mark.parametrize("name", FAULTY)
def test_ordinary_input_shows_nothing(name: str, tmp_path: Path) -> None:
    assert _run(tmp_path, CASES[name], "benign").splitlines() == ["CLEAN"]


@needs_gcc
@pytest.mark.parametrize("name", sorted(REPORTS))
def test_the_attack_is_reported_at_a_line_of_the_answer(name: str, tmp_path: Path) -> None:
    said = _run(tmp_path, CASES[name], "attack")
    for kind, line in REPORTS[name]:
        assert line in _lines(CASES[name].answer)
        assert _line_of(said, kind) == line


@needs_gcc
@pytest.mark.parametrize("name", sorted(TRIGGERED))
def test_the_attack_succeeds(name: str, tmp_path: Path) -> None:
    assert _run(tmp_path, CASES[name], "attack").splitlines()[-1] == f"TRIGGERED {TRIGGERED[name]}"


@needs_gcc
@pytest.mark.parametrize("name", sorted(WARNINGS))
def test_the_compiler_points_at_the_line(name: str, tmp_path: Path) -> None:
    source = _write(tmp_path, CASES[name])
    said = _compile(
        source, *WARNINGS[name], "-c", "-include", str(ATTACKS / "prelude.h"), str(source), "-o", str(tmp_path / "o")
    )
    warned = {int(line) for line in re.findall(r"listing\.c:(\d+):\d+: warning", said)}
    assert warned
    assert warned <= _lines(CASES[name].answer)


@needs_gcc
@pytest.mark.parametrize("name", FAULTY)
def test_repairing_lines_of_the_answer_stops_the_attack(name: str, tmp_path: Path) -> None:
    assert REPAIRS[name].keys() <= _lines(CASES[name].answer)
    assert _run(tmp_path, CASES[name], "benign", REPAIRS[name]).splitlines() == ["CLEAN"]
    assert _run(tmp_path, CASES[name], "attack", REPAIRS[name]).splitlines() == ["CLEAN"]


@needs_gcc
@pytest.mark.parametrize("name", TAKES_RANDOM)
def test_random_input_finds_the_fault_and_in_the_repaired_listing_no_other(name: str, tmp_path: Path) -> None:
    assert _run(tmp_path, CASES[name], "random").splitlines() != ["CLEAN"]
    assert _run(tmp_path, CASES[name], "random", REPAIRS[name]).splitlines() == ["CLEAN"]


def _numbered(case: Case) -> list[tuple[str, str]]:
    """The listing in a question: number and text of every line."""
    return re.findall(r"^ *(\d+) \|(?: (.*))?$", case.question, re.MULTILINE)


def _lines(answer: str) -> set[int]:
    found: set[int] = set()
    for part in answer.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _suffix(case: Case) -> str:
    return {"C": "c", "C++": "cpp"}[case.domain]


def _write(folder: Path, case: Case, repairs: dict[int, str] | None = None) -> Path:
    """The listing as a file whose line numbers are those of the question."""
    texts = [(repairs or {}).get(int(number), text) for number, text in _numbered(case)]
    source = folder / f"listing.{_suffix(case)}"
    source.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return source


def _compile(source: Path, *arguments: str) -> str:
    compiler = ["gcc", "-std=gnu11"] if source.suffix == ".c" else ["g++", "-std=c++20"]
    done = subprocess.run([*compiler, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr


def _run(folder: Path, case: Case, mode: str, repairs: dict[int, str] | None = None) -> str:
    """What the harness and the sanitizers say, run in an empty folder."""
    source = _write(folder, case, repairs)
    program, place = folder / "program", folder / f"{mode}-{bool(repairs)}"
    place.mkdir()
    _compile(
        source,
        *SANITIZED,
        *("-I", str(folder), "-I", str(ATTACKS), str(ATTACKS / f"{case.id}.{_suffix(case)}"), "-o", str(program)),
    )
    options = {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "LC_ALL": "C"}
    done = subprocess.run(
        [program, mode],
        cwd=place,
        env=os.environ | options,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )
    refusals = "WARNING: AddressSanitizer failed to alloc"  # of sizes that a safe listing is meant to survive
    return "\n".join(line for line in done.stdout.splitlines() if refusals not in line)


def _line_of(said: str, kind: str) -> int:
    """The line of the listing where a report of this kind is: its own, or the first in the stack below."""
    own = re.search(rf"listing\.\w+:(\d+):\d+: runtime error: {kind}", said)
    below = re.search(rf"(?:AddressSanitizer: |^)[^\n]*{kind}.*?listing\.\w+:(\d+)", said, re.MULTILINE | re.DOTALL)
    found = own or below
    assert found is not None, said
    return int(found.group(1))
