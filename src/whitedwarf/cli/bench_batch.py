"""`whitedwarf bench batch`: decode of several sequences together."""

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.bench.batch import PICK_STEPS, BatchPlan, measure_batch
from whitedwarf.bench.batch_report import BatchReport
from whitedwarf.bench.machine import measured_machine
from whitedwarf.bench.traffic import layer_traffic
from whitedwarf.cli.bench_flags import numbers
from whitedwarf.cli.bench_model import measured_ops, open_for
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings
from whitedwarf.cli.machine import read_machine
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import DEFAULT_MODEL, POSITIVE, ModelSettings
from whitedwarf.errors import UsageError
from whitedwarf.weights.store import load_tensors

MOST_SEQUENCES = 256


def command(
    *,
    sequences: str = "1,2,4,8,16",
    depth: Annotated[int, Parameter(name=("--depth", "-d"), validator=Number(gte=0))] = 512,
    steps: Annotated[int, Parameter(name=("--steps", "-n"), validator=POSITIVE)] = 16,
    repeats: Annotated[int, Parameter(name=("--repeats", "-r"), validator=POSITIVE)] = 5,
    output: OutputSettings = DEFAULT_OUTPUT,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Measure decode of 1, 2, 4 ... sequences in one pass: all of them share every read of the weights.

    A table goes to standard output, and one JSON document as its last line.

    Parameters
    ----------
    sequences
        How many together, with commas between.
    depth
        Tokens that each has read.
    steps
        Tokens that each decodes in a round.
    repeats
        Rounds, in which the numbers of sequences take turns.
    """
    sizes = numbers("--sequences", sequences)
    if sizes[-1] > MOST_SEQUENCES:
        raise UsageError(f"--sequences {sequences}: expected at most {MOST_SEQUENCES} together")
    output.check()
    loaded = open_for(model, depth + max(steps, PICK_STEPS) + 2, None, "--depth and --steps")
    output.check(loaded.gguf.paths)
    progress, ops = ProgressLine(), measured_ops(loaded)
    progress.show("measuring memory")
    machine = measured_machine(read_machine().cpu, ops)
    plan = BatchPlan(sizes, depth, steps, repeats, loaded.chunk_tokens)
    samples = measure_batch(loaded.paced, plan, progress.show)
    machine = machine.at_its_best(measured_machine(machine.cpu, ops))
    progress.clear()
    traffic = layer_traffic(load_tensors(loaded.gguf), loaded.transformer.config.hp)
    report = BatchReport(loaded.gguf.paths[0].name, machine, traffic, plan, samples)
    output.finish(report.table(), report.document())
