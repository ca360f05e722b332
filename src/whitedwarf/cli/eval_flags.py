"""The options of `whitedwarf eval`, each described once (spec/product.md D.2)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from whitedwarf.config import POSITIVE, SamplingSettings

_EXAM = Group.create_ordered("Exam")
_SERVER = Group.create_ordered("Another server")
_TRACE = Group.create_ordered("Traces and checks")
_SCREEN = Group.create_ordered("Screen")
_SAMPLING = Group.create_ordered("Sampling")
_NOT_NEGATIVE = Number(gte=0)


@Parameter(name="*", group=_EXAM)
@dataclass(frozen=True, slots=True, kw_only=True)
class ExamSettings:
    """What is asked, of whom, and what is kept of it."""

    questions: Annotated[int | None, Parameter(validator=POSITIVE)] = None
    """Ask only the first so many cases. Default: all."""
    case_sequence: str | None = None
    """Ask these cases in this order: numbers from 1 with commas between."""
    cases: Path | None = None
    """Questions of your own instead of the built-in 92: JSON lines in the shape of GPQA, SuperGPQA, AIME or MMLU
    (docs/eval.md)."""
    shape: Literal["gpqa", "supergpqa", "aime", "mmlu"] | None = None
    """Which of these the file has. Default: told by its keys."""
    think: bool = False
    """Think before answering (the default)."""
    think_max: bool = False
    """Think as hard as possible; makes the context at least 393216."""
    nothink: bool = False
    """Answer at once."""
    soft_limit_reply_budget: Annotated[int | None, Parameter(validator=_NOT_NEGATIVE)] = None
    """With so many tokens left, thoughts end as soon as that is among the likeliest continuations. Default: 1024."""
    hard_limit_reply_budget: Annotated[int | None, Parameter(validator=_NOT_NEGATIVE)] = None
    """With so many tokens left, thoughts end in any case. Default: 512."""
    soft_limit_think_close_rank: Annotated[int | None, Parameter(validator=_NOT_NEGATIVE)] = None
    """How many are the likeliest. Default: 3."""
    parallel: Annotated[int, Parameter(validator=Number(gte=1, lte=256))] = 1
    """Cases asked at a time. Answers are the same with any number; memory for their contexts is not."""
    url: Annotated[str | None, Parameter(group=_SERVER)] = None
    """Ask a server that speaks OpenAI's Chat Completions, such as http://127.0.0.1:8000, instead of a model in this
    process. --model is then its name for the model. Thoughts are limited by --tokens alone there."""
    api_key_env: Annotated[str | None, Parameter(group=_SERVER)] = None
    """Environment variable with the key for it. Default: no key is sent."""
    extra_body: Annotated[str | None, Parameter(group=_SERVER, allow_leading_hyphen=True)] = None
    """JSON object with further members of each request; null takes one away that we would send."""
    trace: Annotated[Path | None, Parameter(group=_TRACE)] = None
    """New file for everything about each case, private to you."""
    resume_trace: Annotated[Path | None, Parameter(group=_TRACE)] = None
    """Go on where this trace stops: what was answered is not asked again. Give the same options as before."""
    regrade_trace: Annotated[Path | None, Parameter(group=_TRACE)] = None
    """Grade this trace's answers anew, without a model, tell what changed, and end."""
    self_test_extractors: Annotated[bool, Parameter(group=_TRACE)] = False
    """Check the reading of answers on texts with traps, without a model, and end."""
    expect: Annotated[Path | None, Parameter(group=_TRACE)] = None
    """An earlier exam's --json file or trace: statuses, answers and token counts must be the same again. The exit code
    then says only whether they are."""
    plain: Annotated[bool, Parameter(group=_SCREEN)] = False
    """Text instead of the split screen, which needs a terminal of 90 x 18."""
    pause_ms: Annotated[int, Parameter(group=_SCREEN, validator=Number(gte=0, lte=60_000))] = 350
    """How long the split screen rests after each case."""


@Parameter(name="*", group=_SAMPLING)
@dataclass(frozen=True, slots=True, kw_only=True)
class ExamSampling(SamplingSettings):
    """How long answers may be, and how tokens are drawn."""

    max_tokens: Annotated[int, Parameter(name=("--tokens", "-n"), validator=POSITIVE)] = 16_000
    """Most tokens of an answer, thoughts included."""
    temperature: Annotated[float, Parameter(name="--temp", validator=Number(gte=0, lte=100))] = 0.0
    """0 always takes the likeliest token."""


DEFAULT_EXAM = ExamSettings()
DEFAULT_EXAM_SAMPLING = ExamSampling()
