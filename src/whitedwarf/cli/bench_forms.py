"""`whitedwarf bench forms`: what it costs to hold an answer to a JSON Schema."""

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.bench.forms import FormCost, FormPlan, measure_forms
from whitedwarf.cli.bench_model import open_for
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings
from whitedwarf.cli.machine import read_machine
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import DEFAULT_MODEL, POSITIVE, ModelSettings
from whitedwarf.prompt.tokenizer import Tokenizer


def command(
    *,
    prompt_tokens: Annotated[int, Parameter(name=("--prefill", "-p"), validator=Number(gte=1))] = 64,
    decode_tokens: Annotated[int, Parameter(name=("--decode", "-n"), validator=Number(gte=2))] = 256,
    rounds: Annotated[int, Parameter(name=("--repeats", "-r"), validator=POSITIVE)] = 5,
    output: OutputSettings = DEFAULT_OUTPUT,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Measure decoding held to a JSON Schema beside free decoding: what the form adds to a token.

    Records and one long string, greedily and at temperature 1. A table goes to standard output, and one JSON document
    as its last line.

    Parameters
    ----------
    prompt_tokens
        Tokens of the prompt.
    decode_tokens
        Tokens of the answer.
    rounds
        Rounds, in which the sides take turns.
    """
    output.check()
    plan = FormPlan(prompt_tokens, decode_tokens, rounds)
    loaded = open_for(model, prompt_tokens + decode_tokens + 2, None, "--prefill and --decode")
    output.check(loaded.gguf.paths)
    progress = ProgressLine()
    tokenizer = Tokenizer.from_metadata(loaded.gguf.metadata)
    costs = measure_forms(loaded.transformer, tokenizer, plan, loaded.chunk_tokens, progress.show)
    progress.clear()
    document = {
        "model": loaded.gguf.paths[0].name,
        "machine": read_machine().cpu,
        "backend": loaded.transformer.ops.name,
        "plan": asdict(plan),
        "costs": [asdict(cost) for cost in costs],
    }
    output.finish("\n".join(map(_line, costs)), document)


def _line(cost: FormCost) -> str:
    low, high = cost.share_quartiles
    between = f"between passes {cost.free_us:5.0f} us free, {cost.held_us:5.0f} us held"
    share = f"{cost.share:+.1%} of a token ({low:+.1%} to {high:+.1%})"
    return f"{cost.form:<8} temperature {cost.temperature:g}: a pass {cost.pass_us:7.0f} us, {between}: {share}"
