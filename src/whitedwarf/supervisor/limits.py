"""The soft context limit: says no while the client can still shorten its conversation (spec/supervisor.md 1.4).

Promises: exact counting by the model's own server, bounded in time; a prompt that cannot be counted passes, and the
status says so; nothing of a prompt is kept but digests. Does not know HTTP answers: answers.py gives an Overflow its
form.
"""

from collections.abc import Callable
from dataclasses import dataclass

from whitedwarf.supervisor import policy
from whitedwarf.supervisor.config import Model
from whitedwarf.supervisor.conversation import conversation
from whitedwarf.supervisor.counting import Counter, counter_of
from whitedwarf.supervisor.grace import GraceBook
from whitedwarf.supervisor.json_spans import finished
from whitedwarf.supervisor.running import Running

Clock = Callable[[], float]

_TEMPLATE_TOKENS = 2_048
_GROWTH, _GROWTH_OF_TOOLS = 2, 4
_WORTH_MORE_THAN_THEIR_BYTES = (b"image", b"audio", b"video", b"file", b"previous_response_id", b"conversation")


@dataclass(frozen=True, slots=True)
class Overflow:
    """A prompt of `tokens` that does not get past `limit`: the soft one, or the real size of the context."""

    tokens: int
    limit: int


class SoftLimit:
    """Of one model. `desk.limit(key)` gives it."""

    def __init__(self, model: Model, clock: Clock) -> None:
        self._model = model
        self._counter = Counter(clock)
        self._book = GraceBook(model.soft_grace_s, clock)

    @property
    def model(self) -> Model:
        """Whose it is; another one comes with another config, and windows stay open."""
        return self._model

    @model.setter
    def model(self, model: Model) -> None:
        self._model = model
        self._book.grace_s = model.soft_grace_s

    def tokens(self, real: int) -> int:
        """The limit where requests really get this much context (0: unknown); 0 for none."""
        return policy.lowered_limit(self._model.soft_context_limit, self._model.context_size, real)

    @property
    def counting(self) -> str:
        """Whether prompts can be counted, for the status."""
        return self._counter.status if self._model.soft_context_limit else "off"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What people should know."""
        if not self.counting.startswith("unavailable"):
            return ()
        return (f"the soft limit does not act: counting {self.counting}",)

    async def check(self, running: Running, target: str, body: bytes) -> Overflow | None:
        """What to answer instead of forwarding, or None. `target`: path and query of the request. Never raises."""
        limit, path = self.tokens(running.context_size), target.partition("?")[0]
        if limit == 0 or counter_of(path) is None:
            return None
        if is_surely_below(body, limit):
            await self._passed(body)
            return None
        tokens = await self._counter.count(self._model, running, path, body)
        if tokens is None:
            return None
        if tokens < limit:  # as llama-server counts: a prompt that fills the context has overflowed
            await self._passed(body)
            return None
        return await self._over(tokens, limit, running.context_size, body)

    async def _passed(self, body: bytes) -> None:
        if len(self._book) and (known := await finished(conversation(body))) is not None:
            self._book.passed(known)

    async def _over(self, tokens: int, limit: int, real: int, body: bytes) -> Overflow | None:
        """What is over the real size too would only be refused by the server; its summary gets its window."""
        known = await finished(conversation(body))
        is_admitted = known is None or self._book.admits(known)
        if real and tokens >= real:
            return Overflow(tokens, real)
        return None if is_admitted else Overflow(tokens, limit)


def is_surely_below(body: bytes, limit: int) -> bool:
    """Whether so few bytes cannot be so many tokens, whoever counts them.

    A token is at least one byte of what the template makes of the request. That is more than the request: marks around
    each message (of which the request itself has 20 bytes and more), tools spelt out with their indentation, a system
    text where there is none. And some of it stands for more than itself: pictures, answers that the server remembers.
    """
    growth = _GROWTH_OF_TOOLS if b'"tools"' in body else _GROWTH
    if len(body) * growth + _TEMPLATE_TOKENS >= limit:
        return False
    return not any(word in body for word in _WORTH_MORE_THAN_THEIR_BYTES)
