"""What a caller asks of the engine and what it hears back: plain frozen values.

Everything is token ids and numbers. Text, chat roles and stop *strings* belong to the callers.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from whitedwarf.errors import UsageError, WhitedwarfError

DEFAULT_MAX_TOKENS = 50_000
MAX_TOP_LOGPROBS = 128


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How the next token is drawn (product.md 0.6). Temperature 0 is greedy.

    `top_p` outside (0, 1] means 1, negative `min_p` means 0, `top_k` <= 0 means off: the sampler's rule, not an error.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.05
    top_k: int = 0
    seed: int | None = None  # None: a fresh random one per request
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()  # token ids, each once, and what is added to their logits

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            if not math.isfinite(value):
                raise UsageError(f"{name} must be a finite number, got {value}")

    @property
    def is_greedy(self) -> bool:
        return self.temperature <= 0


GREEDY = SamplingOptions(temperature=0.0)


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """When to stop, how to draw, and what to report. `max_tokens` 0 only runs the prompt."""

    max_tokens: int = DEFAULT_MAX_TOKENS
    stop_ids: frozenset[int] = frozenset()
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    logprobs: int | None = None  # None: none; 0: of each token; n: of the n best candidates too
    checkpoints: tuple[int, ...] = ()  # prompt lengths worth remembering, such as message ends; a hint

    def __post_init__(self) -> None:
        if self.max_tokens < 0:
            raise UsageError(f"max_tokens must be 0 or more, got {self.max_tokens}")
        if any(position < 0 for position in self.checkpoints):
            raise UsageError(f"checkpoints must be token counts of 0 or more, got {min(self.checkpoints)}")
        if self.logprobs is not None and not 0 <= self.logprobs <= MAX_TOP_LOGPROBS:
            raise UsageError(f"logprobs must be between 0 and {MAX_TOP_LOGPROBS}, got {self.logprobs}")


@dataclass(frozen=True, slots=True)
class TokenScore:
    """One candidate for a position: its logit and the natural log of its probability at temperature 1."""

    id: int
    logit: float
    logprob: float


@dataclass(frozen=True, slots=True)
class Prefilled:
    """`processed` of the prompt's `total` tokens are in the state: a durable frontier, also safe for a snapshot.

    The first one comes when the request starts and counts what was reused; then one per chunk.
    """

    processed: int
    total: int


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token. A token of `stop_ids` ends the stream and is named in `Finished` instead."""

    id: int
    logprob: float | None = None
    best: tuple[TokenScore, ...] = ()


class Reuse(StrEnum):
    """Where the part of a prompt that was not computed came from."""

    NONE = "none"
    MEMORY = "memory"  # a checkpoint, copied
    LIVE = "live"  # the state of an earlier request itself, not copied
    DISK = "disk"


class MissReason(StrEnum):
    """Why a prompt, or a part of it that was seen before, is computed again."""

    OFF = "off"  # nothing is remembered for requests without a session
    EMPTY = "empty"  # nothing has been remembered yet
    UNKNOWN_PREFIX = "unknown_prefix"  # no earlier prompt begins like this one
    NO_CHECKPOINT = "no_checkpoint"  # one does, but there is no checkpoint (any more) near the end of what they share


class FinishReason(StrEnum):
    STOP = "stop"  # a token of stop_ids came, or the guide said that the answer is over: then there is no stop_id
    LENGTH = "length"  # max_tokens or the context is used up
    CANCELLED = "cancelled"  # by its owner or by closing the engine
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finished:
    """Always the last event, exactly once. `generated_tokens` counts `Token` events; times are wall-clock.

    `prefill_s` runs from the start of the first chunk to the first token's logits, `decode_s` from there to the end.
    """

    reason: FinishReason
    prompt_tokens: int
    generated_tokens: int
    reused_tokens: int = 0  # prompt tokens that were not computed
    prefill_s: float = 0.0
    decode_s: float = 0.0
    stop_id: int | None = None
    error: WhitedwarfError | None = None
    reuse: Reuse = Reuse.NONE
    miss_reason: MissReason | None = None  # None: all that was seen before is reused, or the request never started
    common_tokens: int = 0  # of the prompt that an earlier one began with too, whether or not they were reused
    seen_next: tuple[int, ...] = ()  # up to 8 ids that followed them in the earlier prompt
    drafted_tokens: int = 0  # guesses of the answer's tokens that the model looked at
    accepted_tokens: int = 0  # of these, those that came so


Event = Prefilled | Token | Finished


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer at once."""

    tokens: tuple[Token, ...]
    finished: Finished

    @property
    def ids(self) -> list[int]:
        return [token.id for token in self.tokens]
