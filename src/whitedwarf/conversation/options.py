"""What a request asks of the answer besides its prompt: how to sample, and the form that is to be enforced."""

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class InferenceOptions:
    """How to sample, as the protocols resolved it (spec/recipe.md 6); None leaves a choice to the engine.

    `max_tokens` is what the client asked for; how much fits is known once the prompt is counted.
    """

    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()  # token ids, and what is added to their logits


class ConstraintKind(StrEnum):
    """The kind of grammar that an answer has to follow."""

    TOOL_CALL = "tool_call"  # if it calls a tool, then one of these
    TOOL_CALL_REQUIRED = "tool_call_required"  # it has to call one of these
    JSON = "json"  # a JSON value; an empty schema means any object
    REGEX = "regex"


@dataclass(frozen=True, slots=True)
class Constraint:
    """The form of an answer, as data: `schema` is compact JSON, or the expression (spec/recipe.md 6)."""

    kind: ConstraintKind
    schema: str
