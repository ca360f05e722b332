"""`whitedwarf bench power`: how much of the processors an engine takes at less than full power."""

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.bench.duty import DutyPlan, Load, measure_duty
from whitedwarf.cli.bench_flags import numbers
from whitedwarf.cli.bench_model import open_for
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings
from whitedwarf.cli.machine import read_machine
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import DEFAULT_MODEL, POSITIVE, ModelSettings
from whitedwarf.engine.power import FULL_POWER_PERCENT, checked_power
from whitedwarf.errors import UsageError


def command(
    *,
    powers: str = "100,50,25",
    prompt_tokens: Annotated[int, Parameter(name=("--prefill", "-p"), validator=Number(gte=2))] = 2048,
    decode_tokens: Annotated[int, Parameter(name=("--decode", "-n"), validator=Number(gte=2))] = 128,
    rounds: Annotated[int, Parameter(name=("--repeats", "-r"), validator=POSITIVE)] = 3,
    output: OutputSettings = DEFAULT_OUTPUT,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Measure processor seconds per second while a prompt is read and an answer written, at several powers.

    A table goes to standard output, and one JSON document as its last line.

    Parameters
    ----------
    powers
        In percent, with commas between; 100 is always among them.
    prompt_tokens
        Tokens of the prompt.
    decode_tokens
        Tokens of the answer.
    rounds
        Rounds, in which the powers take turns.
    """
    if model.power != FULL_POWER_PERCENT:
        raise UsageError("--power and bench power contradict each other: say with --powers what to measure")
    asked = sorted({*numbers("--powers", powers), FULL_POWER_PERCENT}, reverse=True)
    plan = DutyPlan(tuple(map(checked_power, asked)), prompt_tokens, decode_tokens, rounds)
    output.check()
    loaded = open_for(model, prompt_tokens + decode_tokens + 2, None, "--prefill and --decode")
    output.check(loaded.gguf.paths)
    progress = ProgressLine()
    with loaded.engine() as engine:
        loads = measure_duty(engine, plan, progress.show)
    progress.clear()
    document = {
        "model": loaded.gguf.paths[0].name,
        "machine": read_machine().cpu,
        "backend": loaded.transformer.ops.name,
        "plan": asdict(plan),
        "loads": [asdict(load) for load in loads],
    }
    output.finish("\n".join(map(_line, loads)), document)


def _line(load: Load) -> str:
    took = f"{load.power_percent:>3} % {load.phase:<8} {load.cpu_per_s:6.2f} processors"
    return f"{took}, {100 * load.share:6.1f} % of those at full power, {load.tokens_per_s:10.2f} tokens/s"
