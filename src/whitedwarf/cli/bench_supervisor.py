"""`whitedwarf bench supervisor`: what a supervisor costs between a client and a model."""

import os
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.bench.supervisor_overhead import measure_supervisor
from whitedwarf.bench.supervisor_report import SupervisorReport
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings
from whitedwarf.cli.machine import read_machine
from whitedwarf.config import POSITIVE


def command(
    *,
    requests: Annotated[int, Parameter(validator=POSITIVE)] = 1000,
    events: Annotated[int, Parameter(validator=POSITIVE)] = 3000,
    output: OutputSettings = DEFAULT_OUTPUT,
) -> None:
    """Start `whitedwarf supervise` in front of a scripted server and measure both from outside, in turns.

    Requests, events of streams, memory, idle processor time and a cold start. A table goes to standard output, and one
    JSON document as its last line.

    Parameters
    ----------
    requests
        Requests of each size.
    events
        Events of each size that come alone, a millisecond apart; ten times as many come at once.
    """
    output.check()
    machine, load = read_machine(), os.getloadavg()[0]
    report = SupervisorReport(machine.cpu, machine.usable_threads, load, measure_supervisor(requests, events))
    output.finish(report.table(), report.document())
