"""Our engine in this process: exact token counts, and thoughts closed to the token.

Promises: the same answers however many are asked at a time. Prompts are V4's, as `whitedwarf run` makes them.
"""

from collections.abc import Sequence

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import SystemMessage, UserMessage
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.event_feed import EventFeed
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import Event, Finished, FinishReason, GenerateOptions, Prefilled, SamplingOptions, Token
from whitedwarf.errors import EngineClosedError
from whitedwarf.evals.answer import Answer
from whitedwarf.evals.budget import Limits, ThinkBudget
from whitedwarf.evals.case import Case
from whitedwarf.evals.grade import ThinkMode
from whitedwarf.evals.prompts import SYSTEM_PROMPT, question_prompt
from whitedwarf.evals.target import Asking, NoMoreQuestionsError, TargetFacts
from whitedwarf.prompt.encode_v4 import encode
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer


def prompt_ids(case: Case, thinking: ThinkMode, tokenizer: Tokenizer) -> list[int]:
    """The whole prompt of a case."""
    mode = Thinking(thinking)
    messages = (SystemMessage(SYSTEM_PROMPT), UserMessage(question_prompt(case)))
    conversation = Conversation(messages, is_thinking=mode.is_on, reasoning_effort=mode.effort)
    return tokenizer.encode_segments(encode(conversation).segments)


class EngineTarget:
    """`thinking` is the mode that the context allows. The engine stays its maker's to close."""

    def __init__(
        self, engine: Engine, tokenizer: Tokenizer, facts: TargetFacts, thinking: ThinkMode, limits: Limits
    ) -> None:
        self.facts = facts
        self._engine = engine
        self._tokenizer = tokenizer
        self._thinking = thinking
        self._limits = limits
        self._close_id = tokenizer.special_id(SpecialToken.THINK_CLOSE)
        self._end_id = tokenizer.special_id(SpecialToken.EOS)

    def why_skipped(self, case: Case) -> str | None:
        """Without room for the prompt and one token."""
        length = len(prompt_ids(case, self._thinking, self._tokenizer))
        if length + 1 < self._engine.context_length:
            return None
        return f"its prompt of {length} tokens leaves no room in the context of {self._engine.context_length}"

    async def ask(self, case: Case, asking: Asking, answer: Answer) -> None:
        """As Target.ask; an engine that is gone raises NoMoreQuestionsError."""
        prompt = prompt_ids(case, self._thinking, self._tokenizer)
        budget = min(asking.max_tokens, self._engine.context_length - len(prompt) - 1)
        think = ThinkBudget(self._limits, self._close_id, budget) if self._thinking != "none" else None
        answer.think_mode = self._thinking
        try:
            generation = self._engine.submit(prompt, self._options(asking), guide=think, chooser=think)
            try:
                await _follow(generation, _Saying(answer, self._tokenizer, self._close_id))
            finally:
                generation.cancel()
                if think is not None:
                    answer.closed = think.closed  # it hears of a token after we do, but of all before the end
        except EngineClosedError as error:
            raise NoMoreQuestionsError(str(error)) from error

    def pause(self, is_paused: bool) -> None:
        """All answers stand still after the token in hand."""
        self._engine.is_paused = is_paused

    def _options(self, asking: Asking) -> GenerateOptions:
        sampling = SamplingOptions(asking.temperature, asking.top_p, asking.min_p, seed=asking.seed)
        return GenerateOptions(asking.max_tokens, frozenset({self._end_id}), sampling)


async def _follow(generation: Generation, saying: "_Saying") -> None:
    feed: EventFeed[Event] = EventFeed(generation)
    while not saying.take(await feed.next()):
        pass


class _Saying:
    """From the engine's events to an answer."""

    def __init__(self, answer: Answer, tokenizer: Tokenizer, close_id: int) -> None:
        self._answer = answer
        self._tokenizer = tokenizer
        self._close_id = close_id
        self._is_thinking = answer.think_mode != "none"
        self._decoder = tokenizer.stream_decoder()

    def take(self, events: Sequence[Event]) -> bool:
        """Whether it is over; the error of a failed request is raised."""
        for event in events:
            match event:
                case Prefilled():
                    self._answer.read(event.processed, event.total)
                case Token():
                    self._say(event.id)
                case Finished():
                    self._finish(event)
                    return True
        return False

    def _say(self, token: int) -> None:
        self._answer.generated_tokens += 1
        if token == self._close_id and self._is_thinking:
            self._end_text()
            self._is_thinking = False
            self._answer.close_thoughts()
            return
        text = self._decoder.feed(token)
        self._answer.say(self._tokenizer.token_bytes(token), text, is_thinking=self._is_thinking)

    def _finish(self, finished: Finished) -> None:
        self._end_text()
        self._answer.is_cut = finished.reason is FinishReason.LENGTH
        if finished.error is not None:
            raise finished.error

    def _end_text(self) -> None:
        """Half a character that nothing completes any more."""
        self._answer.say(b"", self._decoder.finish(), is_thinking=self._is_thinking)
        self._decoder = self._tokenizer.stream_decoder()
