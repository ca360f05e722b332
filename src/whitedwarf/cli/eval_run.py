"""One exam from its options to its report: who is asked, who looks on, what is kept.

Promises: what is wrong with the options is told before a model is loaded or a file is made; after Ctrl+C the trace and
the report have all that was answered by then.
"""

import json
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import anyio

from whitedwarf.cli.bench_output import OutputSettings, told
from whitedwarf.cli.eval_flags import ExamSampling, ExamSettings
from whitedwarf.cli.eval_plain import PlainDisplay
from whitedwarf.cli.eval_resume import Resumed, read_resumed
from whitedwarf.cli.eval_target import Opened, open_target
from whitedwarf.cli.loading import note
from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.cli.termination import tidy_termination
from whitedwarf.cli.thinking_flags import asked_thinking
from whitedwarf.config import ChatSettings, ModelSettings, SteeringSettings
from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.evals.budget import DEFAULT_HARD, DEFAULT_RANK, DEFAULT_SOFT, Limits
from whitedwarf.evals.case import Case
from whitedwarf.evals.context import selected
from whitedwarf.evals.exam import Exam, Watcher
from whitedwarf.evals.expect import Expectation, read_expectation
from whitedwarf.evals.questions import built_in_cases
from whitedwarf.evals.report import Report
from whitedwarf.evals.target import Asking
from whitedwarf.evals.trace import TraceFile, check_is_new, header_facts

LEAST_COLUMNS, LEAST_LINES = 90, 18


@dataclass(frozen=True, slots=True)
class Sitting:
    """One exam, settled: all but how it will come out."""

    cases: Sequence[Case]
    opened: Opened
    asking: Asking
    limits: Limits
    settings: ExamSettings
    resumed: Resumed | None
    is_plain: bool

    def header(self) -> dict[str, object]:
        """What its trace says first."""
        return header_facts(
            self.opened.target.facts,
            self.asking,
            self.limits,
            num_cases=len(self.cases),
            max_prompt_tokens=self.opened.max_prompt_tokens,
        )

    def exam(self, watchers: Sequence[Watcher]) -> Exam:
        """Ready to run; what an earlier run has answered is in it."""
        exam = Exam(
            self.cases,
            self.opened.target,
            self.asking,
            watchers,
            parallel=self.settings.parallel,
            pause_s=0.0 if self.is_plain else self.settings.pause_ms / 1000,
        )
        if self.resumed is not None:
            self.resumed.put_back_into(exam)
        return exam


def run_exam(
    exam: ExamSettings,
    sampling: ExamSampling,
    model: ModelSettings,
    steering: SteeringSettings,
    output: OutputSettings,
) -> int:
    """Ask, grade, report; the exit code."""
    cases = chosen_cases(exam)
    limits = asked_limits(exam)
    expectation = None if exam.expect is None else read_expectation(exam.expect)
    resumed = None if exam.resume_trace is None else read_resumed(exam.resume_trace)
    _check_files(exam, output)
    asking = _asking(exam, sampling, resumed)
    with tidy_termination(), open_target(cases, asking, limits, exam, model, steering) as opened:
        output.check(opened.files)
        asking = replace(asking, thinking=opened.thinking)
        sitting = Sitting(cases, opened, asking, limits, exam, resumed, exam.plain or not _has_screen())
        note(f"{len(cases)} cases, {asking.sampling} seed={asking.seed}, {opened.summary}")
        with _trace(sitting) as trace:
            return _examine(sitting, trace, expectation, output)


def _check_files(exam: ExamSettings, output: OutputSettings) -> None:
    """UsageError where a file would take the place of another."""
    read = [path for path in (exam.cases, exam.resume_trace, exam.expect) if path is not None]
    output.check(read)
    if exam.trace is None:
        return
    check_output(exam.trace)
    check_is_new(exam.trace)
    if output.json_file is not None and output.json_file.absolute() == exam.trace.absolute():
        raise UsageError(f"--trace and --json {output.json_file} are the same file: give two names")


def _asking(exam: ExamSettings, sampling: ExamSampling, resumed: Resumed | None) -> Asking:
    """As the options have it; without --seed a new one, or that of the exam that is gone on with."""
    thinking = asked_thinking(ChatSettings(think=exam.think, think_max=exam.think_max, nothink=exam.nothink))
    seed = sampling.seed or (resumed.seed if resumed is not None else None) or secrets.randbits(31) or 1
    return Asking(sampling.max_tokens, sampling.temperature, sampling.top_p, sampling.min_p, seed, thinking.value)


def chosen_cases(exam: ExamSettings) -> tuple[Case, ...]:
    """Those that are asked, in order."""
    if exam.cases is None:
        cases = built_in_cases()
    else:
        from whitedwarf.evals.loaders import read_cases

        cases = read_cases(exam.cases, exam.shape)
    return tuple(cases[number - 1] for number in selected(len(cases), exam.questions, exam.case_sequence))


def asked_limits(exam: ExamSettings) -> Limits:
    """The limits of thinking, with their defaults."""
    soft, hard, rank = (
        exam.soft_limit_reply_budget,
        exam.hard_limit_reply_budget,
        exam.soft_limit_think_close_rank,
    )
    return Limits(
        DEFAULT_SOFT if soft is None else soft,
        DEFAULT_HARD if hard is None else hard,
        DEFAULT_RANK if rank is None else rank,
    )


@contextmanager
def _trace(sitting: Sitting) -> Iterator[TraceFile | None]:
    """The one that was asked for, open; None where none was."""
    settings, num_cases = sitting.settings, len(sitting.cases)
    if sitting.resumed is not None:
        sitting.resumed.check(sitting.header(), sitting.cases)
        earlier = sitting.resumed
        trace = TraceFile.go_on(earlier.path, earlier.size_bytes, earlier.end_bytes, num_cases, sitting.asking)
    elif settings.trace is not None:
        trace = TraceFile.create(settings.trace, sitting.header(), num_cases, sitting.asking)
    else:
        yield None
        return
    try:
        yield trace
    finally:
        trace.close()


def _examine(sitting: Sitting, trace: TraceFile | None, expectation: Expectation | None, output: OutputSettings) -> int:
    exam = sitting.exam([trace] if trace is not None else [])
    cut_short: BaseException | None = None
    try:
        _watch(exam, sitting)
    except (WhitedwarfError, KeyboardInterrupt, SystemExit) as error:
        cut_short = error
    report = Report.of(exam, sitting.limits)
    if trace is not None:
        trace.finish(report.summary())
    finish(report, output)
    failure = trace.failure if trace is not None else None
    if failure is not None:
        note(f"the trace is not whole: {failure}")
    if cut_short is not None:
        raise cut_short  # main() knows the exit codes
    if failure is not None:
        return 1
    return report.exit_code if expectation is None else _gate(expectation, report)


def _watch(exam: Exam, sitting: Sitting) -> None:
    """Run it where somebody can see it."""
    if not sitting.is_plain:
        from whitedwarf.evals.tui.app import show

        show(exam)
        return
    display = PlainDisplay(len(sitting.cases), is_streaming=sitting.settings.parallel == 1)
    exam.watch(display)
    try:
        anyio.run(exam.run)
    finally:
        display.finish()


def finish(report: Report, output: OutputSettings) -> None:
    """The table; for scripts the document as the last line, and as a file where that was asked for."""
    line = json.dumps(report.document())
    try:
        if output.json_file is not None:
            write_text(output.json_file, line + "\n")
            told(output.json_file)
    finally:  # each of them also where the other's place is full or gone
        print(report.table())
        if not sys.stdout.isatty():
            print(line)


def _gate(expectation: Expectation, report: Report) -> int:
    differences = list(expectation.differences(report))
    for difference in differences:
        print(f"whitedwarf: other than expected: {difference}", file=sys.stderr)
    if not differences:
        note(f"{len(expectation.outcomes)} cases as expected")
    return 1 if differences else 0


def _has_screen() -> bool:
    """A terminal that is large enough, and can do more than print; the screen is drawn on standard error."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) or os.environ.get("TERM") == "dumb":
        return False
    size = os.get_terminal_size(sys.stdout.fileno())
    return size.columns >= LEAST_COLUMNS and size.lines >= LEAST_LINES
