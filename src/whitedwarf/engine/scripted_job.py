"""One request's life on the scripted engine's thread: waiting, reading the prompt on a clock, answering, ended.

It gives the events that engine/job.py gives for a real model. It does not know its companions.
"""

from dataclasses import dataclass

import numpy as np

from whitedwarf.engine.generation import Generation
from whitedwarf.engine.guide import Guide, course_after
from whitedwarf.engine.request import (
    Finished,
    FinishReason,
    GenerateOptions,
    MissReason,
    Prefilled,
    Reuse,
    Token,
    TokenScore,
)
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.engine.seen_prefixes import Seen
from whitedwarf.errors import BackendError, WhitedwarfError
from whitedwarf.model.base import Ids


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the scripted engine got it, and how far it has come: what a client's tester wants to see."""

    number: int  # counted from 1
    ids: tuple[int, ...]
    options: GenerateOptions
    reused_tokens: int | None  # None: it still waits
    processed_tokens: int
    generated_ids: tuple[int, ...]
    finish: FinishReason | None  # None: it still runs


class ScriptedJob:
    """`budget` is how many tokens may be generated; requests of one `lane` run one after another."""

    def __init__(
        self,
        number: int,
        prompt: Ids,
        options: GenerateOptions,
        budget: int,
        lane: int,
        answer: ScriptedAnswer,
        guide: Guide | None = None,
    ) -> None:
        self.number = number
        self.lane = lane
        self.prompt = prompt
        self.generation = Generation()
        self.due_s = 0.0
        self.finish: FinishReason | None = None
        self._options = options
        self._budget = budget
        self._answer = answer
        self._guide = guide
        self._steps = answer.steps()
        self._next = next(self._steps, None)
        self._seen = Seen()
        self._reused: int | None = None
        self._miss_reason: MissReason | None = None
        self._processed = 0
        self._generated: list[int] = []
        self._started_s = 0.0
        self._prefilled_s: float | None = None

    @property
    def is_ended(self) -> bool:
        return self.finish is not None

    @property
    def live_ids(self) -> Ids:
        """The tokens read and written so far: what a later prompt can build on."""
        return np.concatenate([self.prompt[: self._processed], np.array(self._generated, np.int32)])

    @property
    def received(self) -> Received:
        ids, generated = tuple(self.prompt.tolist()), tuple(self._generated)
        return Received(self.number, ids, self._options, self._reused, self._processed, generated, self.finish)

    def start(self, seen: Seen, miss_reason: MissReason | None, now_s: float) -> None:
        """Begin to read the prompt, of which so much was seen before; `miss_reason` says why it is nothing.

        The last token is always read: a model's logits would be wanted.
        """
        self._started_s = self.due_s = now_s
        self._seen = seen
        self._reused = self._processed = min(seen.num_tokens, len(self.prompt) - 1)
        self._miss_reason = miss_reason
        self.generation.put(Prefilled(self._processed, len(self.prompt)))

    def step(self, now_s: float, step_s: float) -> None:
        """Do what is due now, and say when the next is: within `step_s` while the prompt is read."""
        if self._prefilled_s is None:
            self._read_on(now_s, step_s)
        else:
            self._say_next(now_s)

    def end(
        self,
        reason: FinishReason,
        now_s: float,
        *,
        stop_id: int | None = None,
        error: WhitedwarfError | None = None,
    ) -> None:
        """Tell the caller; the first call counts."""
        if self.is_ended:
            return
        self.finish = reason
        prefill_s, decode_s = self._times(now_s)
        self.generation.put(
            Finished(
                reason=reason,
                prompt_tokens=len(self.prompt),
                generated_tokens=len(self._generated),
                reused_tokens=self._reused or 0,
                prefill_s=prefill_s,
                decode_s=decode_s,
                stop_id=stop_id,
                error=error,
                reuse=Reuse.MEMORY if self._reused else Reuse.NONE,
                miss_reason=self._miss_reason,
                common_tokens=self._seen.num_tokens,
                seen_next=self._seen.next_ids,
            )
        )

    def _read_on(self, now_s: float, step_s: float) -> None:
        total, elapsed_s = len(self.prompt), now_s - self._started_s
        if elapsed_s >= self._answer.prefill_s:
            self._processed, self._prefilled_s = total, now_s
            self.generation.put(Prefilled(total, total))
            self._wait_for_next(now_s)
            return
        assert self._reused is not None
        share = elapsed_s / self._answer.prefill_s
        processed = min(self._reused + int((total - self._reused) * share), total - 1)
        if processed > self._processed:
            self._processed = processed
            self.generation.put(Prefilled(processed, total))
        self.due_s = min(now_s + step_s, self._started_s + self._answer.prefill_s)

    def _say_next(self, now_s: float) -> None:
        assert self._next is not None, "an answer that is over was ended"
        token = self._next.id
        if token in self._options.stop_ids:
            self.end(FinishReason.STOP, now_s, stop_id=token)
            return
        self._generated.append(token)
        self.generation.put(self._event(token))
        try:
            is_over = course_after(self._guide, token).is_over
        except BackendError as error:
            self.end(FinishReason.ERROR, now_s, error=error)
            return
        self._next = next(self._steps, None)
        if is_over:
            self.end(FinishReason.STOP, now_s)
        else:
            self._wait_for_next(now_s)

    def _wait_for_next(self, now_s: float) -> None:
        if len(self._generated) == self._budget:
            self.end(FinishReason.LENGTH, now_s)
        elif self._next is not None:
            self.due_s = now_s + self._next.wait_s
        elif self._answer.ending is FinishReason.STOP:
            self.end(FinishReason.STOP, now_s, stop_id=self._answer.stop_id)
        else:
            self.end(FinishReason.LENGTH, now_s)

    def _event(self, token: int) -> Token:
        """A script is certain of every token."""
        if self._options.logprobs is None:
            return Token(token)
        best = (TokenScore(token, 0.0, 0.0),) if self._options.logprobs else ()
        return Token(token, 0.0, best)

    def _times(self, now_s: float) -> tuple[float, float]:
        """Seconds of prefill and of decode so far."""
        if self._reused is None:
            return 0.0, 0.0
        if self._prefilled_s is None:
            return now_s - self._started_s, 0.0
        return self._prefilled_s - self._started_s, now_s - self._prefilled_s
