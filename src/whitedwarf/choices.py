"""Several answers to one prompt, told as one: each is a `Reply` of its own, on its own way through the engine.

Promises: chunks come as they are drawn, each with the number of its choice, and one usage at the end; where one choice
fails, all end, with its error; whoever leaves ends all. Whatever is told of one choice is what it would be alone.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from whitedwarf.engine.chorus import Chorus, Voiced
from whitedwarf.engine.request import Finished
from whitedwarf.errors import WhitedwarfError
from whitedwarf.protocol.choice_chunks import ChoiceChunks
from whitedwarf.protocol.dialects import Told
from whitedwarf.protocol.failures import Failure
from whitedwarf.reply import Reply, Witness


class Choices:
    """All choices of one request, of a dialect that numbers them. Whoever holds it calls `leave` in the end."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.generation = Chorus([reply.generation for reply in replies])
        self.failure: Failure | None = None
        self._replies = tuple(replies)
        self._chunks = ChoiceChunks(len(replies))
        self._usage: Any = None

    @property
    def is_over(self) -> bool:
        """Whether the last event of the last choice was told."""
        return self.failure is not None or all(reply.is_over for reply in self._replies)

    @property
    def prompt_tokens(self) -> int:
        """Once: all choices begin with the same prompt."""
        return self._replies[0].prompt_tokens

    @property
    def cached_tokens(self) -> int:
        """What was known before the request came; the other choices begin with what the first has read."""
        return self._replies[0].cached_tokens

    @property
    def generated_tokens(self) -> int:
        """Of all choices."""
        return sum(reply.generated_tokens for reply in self._replies)

    @property
    def finished(self) -> Finished | None:
        """The engine's last word on the first choice, for that is the one that read the prompt."""
        return self._replies[0].finished

    def watched_by(self, witness: Witness) -> None:
        """Have it look on; before anything is taken."""
        for number, reply in enumerate(self._replies):
            reply.watched_by(witness if number == 0 else witness.beside(number))

    def begin(self) -> list[Told]:
        """The first events of each choice."""
        return [told for number, reply in enumerate(self._replies) for told in self._chunks.told(number, reply.begin())]

    def keepalive(self) -> list[Told]:
        """One sign of life, which is of no choice."""
        return next((reply.keepalive() for reply in self._replies if not reply.is_over), [])

    def take(self, events: Iterable[Voiced]) -> list[Told]:
        """What tells these events of the engine."""
        told: list[Told] = []
        for voiced in events:
            if self.failure is None:
                told += self._told(voiced)
        return told

    def fail(self, error: WhitedwarfError) -> list[Told]:
        """The last event of choices that cannot go on; none where they are over."""
        if self.is_over:
            return []
        failing = next(reply for reply in self._replies if not reply.is_over)
        told = failing.fail(error)
        self._end_with(failing)
        return told

    def leave(self) -> None:
        """Nobody listens any more."""
        for reply in self._replies:
            reply.leave()

    def collect(self, told: Iterable[Told]) -> None:
        """This belongs to the `body`."""
        for chunk in told:
            self._usage = chunk.get("usage") or self._usage
            for choice in chunk.get("choices", ()):
                self._replies[choice["index"]].collect([chunk])

    def body(self) -> Told:
        """The choices in their order, with the usage of all."""
        bodies = [reply.body() for reply in self._replies]
        choices = [{**body["choices"][0], "index": number} for number, body in enumerate(bodies)]
        return {**bodies[0], "choices": choices, "usage": self._usage}

    def _told(self, voiced: Voiced) -> list[Told]:
        reply = self._replies[voiced.voice]
        told = self._chunks.told(voiced.voice, reply.take((voiced.event,)))
        if reply.failure is not None:
            self._end_with(reply)
        return told

    def _end_with(self, failed: Reply) -> None:
        self.failure = failed.failure
        self.generation.cancel()
