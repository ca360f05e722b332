"""`whitedwarf eval`: questions with known answers, asked and graded (spec/product.md D.2)."""

from pathlib import Path

from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings
from whitedwarf.cli.cluster_flags import over_cluster
from whitedwarf.cli.eval_flags import DEFAULT_EXAM, DEFAULT_EXAM_SAMPLING, ExamSampling, ExamSettings
from whitedwarf.config import (
    DEFAULT_CLUSTER,
    DEFAULT_MODEL,
    DEFAULT_STEERING,
    ClusterSettings,
    ModelSettings,
    SteeringSettings,
)
from whitedwarf.errors import UsageError


def command(
    *,
    exam: ExamSettings = DEFAULT_EXAM,
    sampling: ExamSampling = DEFAULT_EXAM_SAMPLING,
    model: ModelSettings = DEFAULT_MODEL,
    cluster: ClusterSettings = DEFAULT_CLUSTER,
    steering: SteeringSettings = DEFAULT_STEERING,
    output: OutputSettings = DEFAULT_OUTPUT,
) -> int:
    """Ask a model questions with known answers, and grade what it says.

    The 92 built-in ones are 25 rounds of science, general knowledge and mathematics, then 17 pieces of C code of which
    the unsafe lines are to be found. Without --ctx the context is as long as the longest prompt and a full answer need.
    On a terminal a split screen shows it: Up, Down and Enter choose what is asked next, p pauses, q ends. Exit code 0:
    all that was answered is right; 1: something was wrong or failed.
    """
    if exam.self_test_extractors:
        return _self_test()
    if exam.regrade_trace is not None:
        return _regrade(exam.regrade_trace)
    if exam.trace is not None and exam.resume_trace is not None:
        raise UsageError("--trace and --resume-trace exclude each other: give one")
    from whitedwarf.cli.eval_run import run_exam

    return run_exam(exam, sampling, over_cluster(model, cluster), steering, output)


def _self_test() -> int:
    from whitedwarf.evals.selftest import failures, num_checks

    failed = failures()
    for line in failed:
        print(f"FAILED {line}")
    print(f"{num_checks() - len(failed)} of {num_checks()} checks passed")
    return 1 if failed else 0


def _regrade(path: Path) -> int:
    from whitedwarf.evals.regrade import regrade
    from whitedwarf.evals.trace_reader import read_trace_file

    found = regrade(read_trace_file(path))
    for line in found.lines():
        print(line)
    return 0 if found.is_sound else 1
