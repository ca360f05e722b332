"""What it costs to hold an answer to a form: decoding under a JSON Schema beside free decoding.

Protocol: one prompt, drawn with a seed, so many tokens a side, the sides in turns; a round before them does not count.
The texts differ, and with them the experts that are read, so the pace of the passes says nothing of the form: what does
is the time between passes, in which tokens are drawn. Medians over rounds.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from whitedwarf.bench.speed import SEED, random_ids
from whitedwarf.bench.spread import quartiles
from whitedwarf.conversation.json_value import Json
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GenerateOptions, SamplingOptions
from whitedwarf.errors import BackendError
from whitedwarf.model.base import Logits, Model, ModelSize, Span, State
from whitedwarf.prompt.grammar import Grammar, Grammars
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.form_guide import FormGuide

TEMPERATURES = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class FormPlan:
    """What to measure."""

    prompt_tokens: int
    decode_tokens: int
    rounds: int


@dataclass(frozen=True, slots=True)
class FormCost:
    """Microseconds a token: of passes, and between them, free and held to the form. `share`: what the form adds to a
    token of free decoding; its quartiles over rounds."""

    form: str
    temperature: float
    pass_us: float
    free_us: float
    held_us: float
    share: float
    share_quartiles: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Round:
    pass_s: float
    between_s: float


class _Watched:
    """A model whose passes are timed."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.passes_s: list[float] = []

    @property
    def config(self) -> ModelSize:
        return self._model.config

    def new_state(self) -> State:
        return self._model.new_state()

    def forward(self, spans: Sequence[Span]) -> list[Logits]:
        began_s = time.perf_counter()
        logits = self._model.forward(spans)
        self.passes_s.append(time.perf_counter() - began_s)
        return logits


def forms(plan: FormPlan) -> dict[str, Json]:
    """Schemas of texts that do not end within so many tokens: records are structure, one string is not."""
    record: Json = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["name", "count", "tags"],
        "additionalProperties": False,
    }
    return {
        "records": {"type": "array", "minItems": plan.decode_tokens, "items": record},
        "string": {"type": "string", "minLength": 32 * plan.decode_tokens},
    }


def measure_forms(
    model: Model, tokenizer: Tokenizer, plan: FormPlan, chunk_tokens: int, progress: Callable[[str], None]
) -> list[FormCost]:
    """Each form at each temperature."""
    progress("the tokenizer's tables")
    grammars, costs = Grammars(tokenizer), []
    for name, schema in forms(plan).items():
        grammar = grammars.of_schema(schema)
        for temperature in TEMPERATURES:
            progress(f"{name}, temperature {temperature:g}")
            run = _Run(model, tokenizer, plan, chunk_tokens, temperature)
            rounds = [(run.round(None), run.round(grammar)) for _ in range(plan.rounds + 1)]
            costs.append(_cost(name, temperature, rounds[1:]))
    return costs


@dataclass(frozen=True, slots=True)
class _Run:
    model: Model
    tokenizer: Tokenizer
    plan: FormPlan
    chunk_tokens: int
    temperature: float

    def round(self, form: Grammar | None) -> _Round:
        """An answer, held to the form or free."""
        watched = _Watched(self.model)
        guide = None if form is None else FormGuide(form, self.tokenizer, is_thinking=False)
        prompt = random_ids(watched.config.vocab_size, self.plan.prompt_tokens)
        options = GenerateOptions(
            self.plan.decode_tokens, sampling=SamplingOptions(self.temperature, min_p=0.0, seed=SEED)
        )
        with Engine(watched, max_chunk_tokens=self.chunk_tokens, max_parallel=1) as engine:
            completion = engine.submit(prompt, options, guide=guide).result()
        count = len(completion.ids)
        if count < self.plan.decode_tokens:
            raise BackendError(f"an answer that should not end has ended after {count} tokens: report this as a bug")
        pass_s = sum(watched.passes_s[-(count - 1) :])
        return _Round(pass_s / (count - 1), (completion.finished.decode_s - pass_s) / (count - 1))


def _cost(form: str, temperature: float, rounds: Sequence[tuple[_Round, _Round]]) -> FormCost:
    shares = [(held.between_s - free.between_s) / (free.pass_s + free.between_s) for free, held in rounds]
    return FormCost(
        form,
        temperature,
        1e6 * median(free.pass_s for free, _ in rounds),
        1e6 * median(free.between_s for free, _ in rounds),
        1e6 * median(held.between_s for _, held in rounds),
        median(shares),
        quartiles(shares),
    )
