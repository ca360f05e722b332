"""`whitedwarf bench kernels`: each kernel at each CPU level beside what the machine could do."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf._native import Kernels
from whitedwarf.bench.kernels import PARTS, KernelSample, Sizes, cases, measure_case
from whitedwarf.bench.kernels_report import KernelsReport
from whitedwarf.bench.limits import measured_peaks
from whitedwarf.bench.machine import measured_machine
from whitedwarf.bench.plot import Picture, check_plot, draw_shares
from whitedwarf.cli.bench_flags import numbers
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings, told
from whitedwarf.cli.machine import available_threads, read_machine
from whitedwarf.cli.output_file import check_output
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import POSITIVE
from whitedwarf.errors import UsageError
from whitedwarf.ops.cpu import CpuOps

SIZES = Sizes()
PIXELS_PER_BAR = 26


def command(
    *,
    levels: str | None = None,
    parts: str = ",".join(PARTS),
    rows: str = "1,8,512",
    repeats: Annotated[int, Parameter(name=("--repeats", "-r"), validator=POSITIVE)] = 9,
    budget_s: Annotated[float, Parameter(validator=Number(gt=0))] = 1.0,
    threads: Annotated[int | None, Parameter(name=("--threads", "-t"), validator=Number(gte=1, lte=1024))] = None,
    plot: Path | None = None,
    output: OutputSettings = DEFAULT_OUTPUT,
) -> None:
    """Measure GB/s and Gop/s of each kernel, in Flash's dimensions, and the share of the limit that binds it.

    The limits, memory and arithmetic in registers, are measured first. A table goes to standard output, and one JSON
    document as its last line.

    Parameters
    ----------
    levels
        CPU levels, with commas between, or all. Default: all that this CPU has, but scalar, which is slow.
    parts
        Which kernels: linear, experts, attention, indexer, quantise.
    rows
        Numbers of activation rows (decode has 1), with commas between.
    repeats
        Repetitions of each, in which the levels take turns; 3 or more where they take longer than --budget-s.
    budget_s
        Seconds for each kernel at each level.
    threads
        Default: one for each core that this process may use.
    plot
        Also draw the shares (.svg, .png); needs matplotlib.
    """
    chosen, asked, counts = _levels(levels), _parts(parts), numbers("--rows", rows)
    if plot is not None:
        check_output(plot)
        check_plot(plot)
    output.check()
    progress = ProgressLine()
    ops = [CpuOps(threads or available_threads(), level=level) for level in chosen]
    progress.show("measuring memory")
    machine = measured_machine(read_machine().cpu, ops[-1])
    progress.show("measuring arithmetic")
    peaks, samples = measured_peaks(ops[-1].kernels), list[KernelSample]()
    for case in cases(asked, counts, SIZES):
        progress.show(f"{case.part} {case.name}, {case.rows} rows")
        samples += measure_case(case, ops, repeats, budget_s)
    machine = machine.at_its_best(measured_machine(machine.cpu, ops[-1]))
    progress.clear()
    report = KernelsReport(machine, peaks, samples)
    if plot is not None:
        bars = report.bars()
        draw_shares(bars, Picture(plot, f"Kernels on {machine.cpu}", height=120 + PIXELS_PER_BAR * len(bars)))
        told(plot)
    output.finish(report.table(), report.document())


def _levels(text: str | None) -> list[str]:
    available = Kernels.available_levels()
    if text is None:
        return available[1:] or available
    asked = available if text == "all" else text.split(",")
    if unknown := [level for level in asked if level not in available]:
        raise UsageError(f"--levels: this CPU has {', '.join(available)}; got {unknown[0] or 'nothing'}")
    return [level for level in available if level in asked]


def _parts(text: str) -> tuple[str, ...]:
    asked = text.split(",")
    if unknown := [part for part in asked if part not in PARTS]:
        raise UsageError(f"--parts: expected some of {', '.join(PARTS)}, with commas between; got {unknown[0]!r}")
    return tuple(asked)
