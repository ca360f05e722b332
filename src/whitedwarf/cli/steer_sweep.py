"""`whitedwarf steer sweep`: how likely a behaviour is at several scales of a direction, as a table (product.md E.5)."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter

from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.cli.scoring import check_fits
from whitedwarf.cli.steer_build import DEFAULT_SYSTEM
from whitedwarf.cli.steer_cases import Case, Row, judged, table
from whitedwarf.cli.steer_prompts import SteerPrompt, read_prompts
from whitedwarf.config import DEFAULT_MODEL, POSITIVE, ModelSettings
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.engine.request import GREEDY, GenerateOptions
from whitedwarf.errors import UsageError
from whitedwarf.model.steering import MAX_SCALE, Steering
from whitedwarf.model.steering_wish import check_directions, open_directions
from whitedwarf.prompt.special import SpecialToken

SCALES = "-2,-1.5,-1,-0.5,0,0.5,1,1.5,2"


def command(
    *,
    file: Annotated[Path, Parameter(name=("--dir-steering-file", "--steering"))],
    prompts: Path,
    behaviour: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    scales: Annotated[str, Parameter(allow_leading_hyphen=True)] = SCALES,
    component: Literal["ffn", "attn", "both"] = "ffn",
    system: Annotated[str, Parameter(name=("--system", "-sys"), allow_leading_hyphen=True)] = DEFAULT_SYSTEM,
    think: Annotated[bool, Parameter(negative=())] = False,
    answers: Annotated[int | None, Parameter(validator=POSITIVE)] = None,
    out: Path | None = None,
    model: ModelSettings = DEFAULT_MODEL,
) -> None:
    """Tell how likely a behaviour is at several scales of a direction: a text with which answers might begin.

    Parameters
    ----------
    file
        The .f32 file with the directions.
    prompts
        Prompts to try, as `steer build` reads them; in a .jsonl file each may have a behaviour of its own.
    behaviour
        The text of prompts without their own.
    scales
        Numbers from -100 to 100 with commas between; 0 is the plain model.
    component
        What is steered: feed-forward layers, attention, or both.
    system
        System text of prompts without one of their own; "" for none.
    think
        Prompts that make the model think before it answers.
    answers
        Also show so many tokens of each answer, drawn greedily.
    out
        File for every single number, as JSON lines. Default: none.
    """
    steps = _scales(scales)
    check_directions(file)
    if out is not None:
        check_output(out, [file, prompts])
    asked = _with_behaviour(read_prompts(prompts), behaviour)
    loaded = open_model(model)
    if out is not None:
        check_output(out, loaded.gguf.paths)
    directions = open_directions(file, loaded.transformer.config)
    cases = _cases(asked, loaded, system, Thinking.HIGH if think else Thinking.NONE)
    models = ((scale, _steered(loaded, directions, scale, component)) for scale in steps)
    rows = [row for scale, steered in models for row in _tried(steered, scale, cases, answers or 0)]
    if out is not None:
        write_text(out, "".join(json.dumps(row.as_json()) + "\n" for row in rows))
    for line in table(rows):
        print(line)


def _scales(text: str) -> list[float]:
    """In the order given, each once."""
    try:
        found = [float(word) for word in text.split(",")]
    except ValueError as error:
        raise UsageError(f"--scales {text}: expected numbers with commas between, such as {SCALES}") from error
    wrong = [scale for scale in found if not math.isfinite(scale) or abs(scale) > MAX_SCALE]
    if wrong:
        raise UsageError(f"--scales {text}: expected numbers from -{MAX_SCALE:g} to {MAX_SCALE:g}, got {wrong[0]:g}")
    return list(dict.fromkeys(found))


def _with_behaviour(prompts: list[SteerPrompt], behaviour: str | None) -> list[tuple[SteerPrompt, str]]:
    """Each with its own, or else the common one; UsageError where there is neither."""
    found = [(prompt, prompt.behaviour or behaviour or "") for prompt in prompts]
    missing = [prompt.text for prompt, text in found if not text]
    if missing:
        raise UsageError(f"what might the answer to {missing[0][:60]!r} begin with? Give --behaviour TEXT")
    return found


def _cases(asked: list[tuple[SteerPrompt, str]], loaded: LoadedModel, system: str, thinking: Thinking) -> list[Case]:
    tokenizer = loaded.tokenizer()
    cases = [
        Case(prompt.text, text, prompt.ids(tokenizer, system, thinking), tokenizer.encode(text))
        for prompt, text in asked
    ]
    check_fits(max(len(case.prompt) + len(case.behaviour) for case in cases), loaded.context_length)
    return cases


def _steered(loaded: LoadedModel, directions: np.ndarray, scale: float, component: str) -> LoadedModel:
    """Scale 0 is the plain model."""
    if not scale:
        return loaded
    ffn, attention = (scale if component in (part, "both") else 0.0 for part in ("ffn", "attn"))
    return loaded.steered(Steering(directions, ffn, attention))


def _tried(loaded: LoadedModel, scale: float, cases: list[Case], answer_tokens: int) -> Iterator[Row]:
    progress = ProgressLine()
    texts = _answers(loaded, cases, answer_tokens) if answer_tokens else [None] * len(cases)
    for number, (case, text) in enumerate(zip(cases, texts, strict=True), 1):
        if progress.is_terminal or number == 1:
            progress.show(f"scale {scale:g}: prompt {number}/{len(cases)}")
        outcome = judged(loaded.paced, case, loaded.chunk_tokens)
        yield Row(scale, case, outcome, text)
    progress.clear()


def _answers(loaded: LoadedModel, cases: list[Case], num_tokens: int) -> list[str | None]:
    tokenizer = loaded.tokenizer()
    options = GenerateOptions(num_tokens, frozenset({tokenizer.special_id(SpecialToken.EOS)}), GREEDY)
    with loaded.engine() as engine:
        return [tokenizer.decode(engine.submit(case.prompt, options).result().ids) for case in cases]
