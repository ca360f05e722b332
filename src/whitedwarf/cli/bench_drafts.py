"""`whitedwarf bench drafts`: what guessing tokens ahead gives, and what it costs where it gives nothing."""

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from whitedwarf.bench.drafting import DraftPace, DraftPlan, measure_drafts
from whitedwarf.cli.bench_model import open_for
from whitedwarf.cli.bench_output import DEFAULT_OUTPUT, OutputSettings
from whitedwarf.cli.machine import read_machine
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.config import DEFAULT_MODEL, POSITIVE, ModelSettings
from whitedwarf.model.drafting import MtpDrafts


def command(
    *,
    prompt_tokens: Annotated[int, Parameter(name=("--prefill", "-p"), validator=Number(gte=1))] = 64,
    decode_tokens: Annotated[int, Parameter(name=("--decode", "-n"), validator=Number(gte=2))] = 256,
    acceptance: Annotated[float, Parameter(validator=Number(gte=0, lte=1))] = 0.7,
    most: Annotated[int, Parameter(validator=Number(gte=1, lte=16))] = 16,
    rounds: Annotated[int, Parameter(name=("--repeats", "-r"), validator=POSITIVE)] = 5,
    output: OutputSettings = DEFAULT_OUTPUT,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Measure decoding with drafts beside plain decoding, on a text that does not repeat itself.

    Planted drafts are right so often as asked; others are always wrong, or come of n-grams, which find little here,
    or of the model's own block, with --mtp or --draft mtp. All must give the same tokens. A table goes to standard
    output, and one JSON document as its last line.

    Parameters
    ----------
    prompt_tokens
        Tokens of the prompt.
    decode_tokens
        Tokens of the answer.
    acceptance
        How likely a planted draft is right, where all before it were.
    most
        Drafts in a pass, at most.
    rounds
        Rounds, in which the sides take turns.
    """
    output.check()
    plan = DraftPlan(prompt_tokens, decode_tokens, acceptance, most, rounds)
    loaded = open_for(model, prompt_tokens + decode_tokens + 2, None, "--prefill and --decode")
    output.check(loaded.gguf.paths)
    progress = ProgressLine()
    block = None if loaded.mtp is None else MtpDrafts(loaded.mtp, model.mtp_margin)
    paces = measure_drafts(loaded.transformer, plan, loaded.chunk_tokens, progress.show, block)
    progress.clear()
    document = {
        "model": loaded.gguf.paths[0].name,
        "machine": read_machine().cpu,
        "backend": loaded.transformer.ops.name,
        "plan": asdict(plan),
        "paces": [asdict(pace) for pace in paces],
    }
    output.finish("\n".join(map(_line, paces)), document)


def _line(pace: DraftPace) -> str:
    low, high = pace.ratio_quartiles
    return f"{pace.name:<22} {pace.tokens_per_s:9.2f} tokens/s, {pace.ratio:5.2f} x plain ({low:.2f} to {high:.2f})"
