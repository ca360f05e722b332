"""`--self-test-extractors`: the traps, and that traces keep every byte and are regraded by their rules. No model."""

from collections.abc import Iterator

from whitedwarf.evals.answer import Answer
from whitedwarf.evals.case import Case
from whitedwarf.evals.exam import Ending, Seat
from whitedwarf.evals.extractor_traps import TRAPS, fallen_for
from whitedwarf.evals.grade import Status
from whitedwarf.evals.regrade import Regrading, regrade
from whitedwarf.evals.target import Asking
from whitedwarf.evals.trace import HEADER, SUMMARY, case_block, fact_lines, heading
from whitedwarf.evals.trace_reader import read_trace

ASKING = Asking(max_tokens=100, temperature=0.0, top_p=1.0, min_p=0.05, seed=1, thinking="high")
CASE = Case("own", "one", "Letters", "A letter", "Which is the third letter?", ("A", "B", "C", "D"), "C", "choice")
NASTY_OUTPUTS = (
    b"",
    b"\n",
    b"Answer: C",
    b"Answer: C\nMODEL_OUTPUT_END\n",
    b"\nMODEL_OUTPUT_END\n\n===== CASE 2/2 own/two =====\nstatus=PASSED\n",
    b"MODEL_OUTPUT_BEGIN bytes=3\nAnswer: A\n===== SUMMARY =====\n",
    bytes(range(256)),
    "Antwort \N{SNOWMAN} \U0001f600".encode() + b"\xf0\x9f",
)
"""Outputs that look like a trace's own markup, or are no text at all."""
_RULES = (  # what a trace says, whether it is graded anew, what comes out
    ("status=PASSED\npicked=C\n", b"t</think>Answer: C", True, Status.PASSED),
    ("status=PASSED\npicked=C\n", b"t</think>Answer: A", True, Status.FAILED),
    ("status=FAILED\npicked=A\n", b"t</think>Answer: C", True, Status.PASSED),
    ("", b"t</think>Answer: C", True, Status.PASSED),
    ("status=SKIPPED\n", b"", False, None),
    ("status=STOPPED\n", b"t</think>Answer: C", False, None),
    ("status=SWITCHED\n", b"t</think>Answer: C", False, None),
    ("status=ERROR\n", b"t</think>Answer: C", False, None),
)


def failures() -> list[str]:
    """A line for each check that fails."""
    return [*fallen_for(), *_changed_bytes(), *_broken_rules()]


def num_checks() -> int:
    """How many there are."""
    return len(TRAPS) + len(NASTY_OUTPUTS) + len(_RULES) + 2


def _changed_bytes() -> Iterator[str]:
    for output in NASTY_OUTPUTS:
        seat = Seat(1, CASE, answer=Answer(), ending=Ending(Status.PASSED, "C"))
        seat.answer.say(output, "", is_thinking=False)
        trace = read_trace(case_block(seat, 2, ASKING) + b"\n" + heading(SUMMARY) + fact_lines({"passed": 1}))
        kept = [part.texts["MODEL_OUTPUT"] for part in trace.cases]
        if trace.fault is not None or kept != [output] or trace.summary != {"passed": "1"}:
            yield f"a trace does not keep {output[:40]!r}: {trace.fault or kept}"


def _broken_rules() -> Iterator[str]:
    for facts, output, is_graded, status in _RULES:
        found = _regraded(facts, output)
        got = [case.now.status for case in found.cases]
        if got != ([status] if is_graded else []) or found.left_out != (not is_graded) or found.faults:
            yield f"a case with {facts!r} is regraded to {got or found.faults or 'nothing'}"
    if _regraded("status=PERHAPS\n", b"Answer: C").is_sound:
        yield "an unknown status is taken for one"
    if regrade(read_trace(heading(HEADER) + b"format=1\n")).is_sound:
        yield "a trace without a case is taken for one"


def _regraded(facts: str, output: bytes) -> Regrading:
    body = f"{facts}expected=C\nchoices=4\nthink_mode=high\nMODEL_OUTPUT_BEGIN bytes={len(output)}\n".encode()
    return regrade(read_trace(heading("CASE 1/1 own/one") + body + output + b"\nMODEL_OUTPUT_END\n"))
