"""The log probabilities of one answer's ids, in the order in which the parser was fed them.

Promises: an event's `token_span` finds its tokens here, whole even where part of their text was cut; a token whose
bytes are no whole characters shows as hexadecimal escapes (`\\xf0\\x9f`), an id outside the vocabulary as nothing.
Does not know any dialect. Spec: recipe.md 13.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.tokenizer import Tokenizer

# JSON has no -inf; this is what OpenAI's service says for a token that is next to impossible.
IMPOSSIBLE = -9999.0


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """One token of the answer and the likeliest ones in its place, each with its natural log probability."""

    data: bytes
    logprob: float
    top: tuple["ScoredToken", ...] = ()

    @property
    def text(self) -> str:
        """The token as shown."""
        try:
            return self.data.decode()
        except UnicodeDecodeError:
            return "".join(f"\\x{byte:02x}" for byte in self.data)

    def as_json(self) -> dict[str, Json]:
        """The entry of a Chat or Responses `logprobs` list."""
        return {**self._shown(), "top_logprobs": [token._shown() for token in self.top]}

    def _shown(self) -> dict[str, Json]:
        return {"token": self.text, "logprob": self.logprob, "bytes": list(self.data)}


class TokenLog:
    """Fed beside the parser: one entry for every id, in order, before the events that the ids complete are told."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokens: list[ScoredToken | None] = []

    def add(self, token_id: int, logprob: float, top: Sequence[tuple[int, float]] = ()) -> None:
        """The next id, and the (id, log probability) pairs that were likeliest in its place."""
        alternatives = tuple(self._scored(*pair) for pair in top)
        self._tokens.append(self._scored(token_id, logprob, alternatives))

    def skip(self, count: int = 1) -> None:
        """The next ids have no log probabilities."""
        self._tokens += [None] * count

    def between(self, span: tuple[int, int]) -> list[ScoredToken] | None:
        """The tokens of an event; None for a text piece, and where any of its tokens has no log probability."""
        tokens = self._tokens[span[0] : span[1]]
        scored = [token for token in tokens if token is not None]
        return scored if scored and len(scored) == len(tokens) else None

    def _scored(self, token_id: int, logprob: float, top: tuple[ScoredToken, ...] = ()) -> ScoredToken:
        known = 0 <= token_id < self._tokenizer.vocab_size
        data = self._tokenizer.token_bytes(token_id) if known else b""
        return ScoredToken(data, logprob if isfinite(logprob) else IMPOSSIBLE, top)
