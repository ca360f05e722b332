"""How long requests take to become ids and ids to become events, beside DeepSeek's own library.

Protocol: each repetition has a conversation nobody has seen (a new seed). First it is encoded cold, with nothing
remembered but words; then the same conversation with one step more, as the agent's next turn; the official library does
both in the same repetition, by turns before us and after us. Making conversations and comparing ids is not timed.
Each gives the ids as its engine wants them: ours an array of 32-bit integers, the official library a list.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

from whitedwarf.bench.recipe_conversations import BODIES, AgentConversation, grown, make_conversation
from whitedwarf.bench.recipe_text import AgentText
from whitedwarf.bench.recipe_wheel import Wheel
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.events import BackendReason
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.message import AssistantMessage, UserMessage
from whitedwarf.conversation.tools import ToolCall, ToolDefinition
from whitedwarf.errors import WhitedwarfError
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions, ParseStart
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.prompt.tokenizer import Ids, Tokenizer
from whitedwarf.protocol.anthropic import convert as messages
from whitedwarf.protocol.body_memory import BodyMemory
from whitedwarf.protocol.converted import Converted
from whitedwarf.protocol.json_body import read_json
from whitedwarf.protocol.openai_chat import convert as chat
from whitedwarf.protocol.openai_responses import convert as responses
from whitedwarf.protocol.policy import OFFICIAL, Policy

CONVERTERS: dict[str, Callable[[Json, Policy, RecipeMemory], Converted[Any]]] = {
    "chat": chat.convert,
    "responses": responses.convert,
    "messages": messages.convert,
}
Encode = Callable[[bytes], list[int] | Ids]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of each repetition, and of processor time, all threads together: what a busy machine disturbs less."""

    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return median(self.seconds)

    @property
    def quartiles_s(self) -> tuple[float, float]:
        """The quarter and three-quarter points."""
        low, _, high = quantiles(self.seconds, n=4) if len(self.seconds) > 1 else [self.seconds[0]] * 3
        return low, high

    @property
    def best_s(self) -> float:
        return min(self.seconds)


@dataclass(frozen=True, slots=True)
class RequestSample:
    """One dialect at one size. The wheel's times are None where it is not installed."""

    dialect: str
    tokens: int  # of the last repetition's first request
    body_bytes: int
    cold: Times
    next_turn: Times
    wheel_cold: Times | None
    wheel_next_turn: Times | None


@dataclass(frozen=True, slots=True)
class ParseSample:
    """Seconds per token of one parser mode, one id at a time."""

    mode: str
    tokens: int
    per_token: Times


class Road:
    """Our own way from bytes to ids, with what a server would remember between requests."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._bodies = BodyMemory()
        self._memory = RecipeMemory()

    def encoder(self, dialect: str) -> Callable[[bytes], Ids]:
        """Request bytes to ids, in that dialect."""
        convert = CONVERTERS[dialect]

        def run(body: bytes) -> Ids:
            request = convert(read_json(body, self._bodies), OFFICIAL, self._memory)
            prompt = encode(request.conversation, request.version, memory=self._memory)
            return self.tokenizer.encode_prompt(prompt)

        return run

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self.tokenizer.encode(text))

    def forget(self) -> None:
        """As after a start."""
        self.tokenizer.forget()
        self._bodies.clear()
        self._memory.clear()


def measure_requests(road: Road, wheel: Wheel | None, tokens: int, repeats: int) -> Iterator[RequestSample]:
    """All dialects at one size. WhitedwarfError where our ids are not the official library's."""
    made = [make_conversation(seed, tokens, road.count) for seed in range(repeats + 1)]
    turns = [(conversation, grown(conversation, step)) for conversation, step in made]
    for dialect in BODIES:
        yield _measure_dialect(road, wheel, dialect, turns)


def _measure_dialect(
    road: Road, wheel: Wheel | None, dialect: str, turns: Sequence[tuple[AgentConversation, AgentConversation]]
) -> RequestSample:
    pairs = [(BODIES[dialect](before), BODIES[dialect](after)) for before, after in turns]
    ours, theirs = road.encoder(dialect), None if wheel is None else wheel.encoder(dialect)
    warm_up, *pairs = pairs
    _both(road, ours, warm_up)
    _theirs(theirs, warm_up)
    ours_runs, wheel_runs = [], []
    for number, pair in enumerate(pairs):
        wheel_first = _theirs(theirs, pair) if number % 2 else None
        ours_runs.append(_both(road, ours, pair))
        wheel_run = wheel_first or _theirs(theirs, pair)
        if wheel_run is not None:
            wheel_runs.append(wheel_run)
            if ours_runs[-1].ids != wheel_run.ids:
                raise WhitedwarfError(
                    f"{dialect}: our ids differ from those of deepseek-recipe {wheel and wheel.version}"
                )
    cold, next_turn = _turns(ours_runs)
    wheel_cold, wheel_next = _turns(wheel_runs) if wheel_runs else (None, None)
    tokens = len(ours_runs[-1].ids[0])
    return RequestSample(dialect, tokens, len(pairs[-1][0]), cold, next_turn, wheel_cold, wheel_next)


@dataclass(frozen=True, slots=True)
class _Run:
    """Both turns of one conversation."""

    seconds: tuple[float, float]
    cpu_seconds: tuple[float, float]
    ids: tuple[list[int], list[int]]


def _turns(runs: Sequence[_Run]) -> tuple[Times, Times]:
    """The first turns' times, and the second ones'."""
    first, second = (
        Times(tuple(run.seconds[turn] for run in runs), tuple(run.cpu_seconds[turn] for run in runs)) for turn in (0, 1)
    )
    return first, second


def _both(road: Road, run: Encode, pair: tuple[bytes, bytes]) -> _Run:
    road.forget()
    return _timed(run, pair)


def _theirs(run: Encode | None, pair: tuple[bytes, bytes]) -> _Run | None:
    return None if run is None else _timed(run, pair)


def _timed(run: Encode, pair: tuple[bytes, bytes]) -> _Run:
    times, cpu_times = [perf_counter()], [process_time()]
    ids = []
    for body in pair:
        ids.append(run(body))
        times.append(perf_counter())
        cpu_times.append(process_time())
    first, second = (list(map(int, some)) for some in ids)
    return _Run(_steps(times), _steps(cpu_times), (first, second))


def _steps(clock: Sequence[float]) -> tuple[float, float]:
    start, middle, end = clock
    return middle - start, end - middle


def measure_parsing(tokenizer: Tokenizer, tokens: int, repeats: int) -> Iterator[ParseSample]:
    """One long answer of thinking, text and calls, in both modes."""
    ids = _answer_ids(tokenizer, tokens)
    for mode in (ParseMode.SALVAGE, ParseMode.STRICT):
        options = ParseOptions(mode, ParseStart.REASONING, stop_strings=("\nSTOP",))
        _parse(tokenizer, options, ids)
        seconds, cpu_seconds = zip(*(_parse(tokenizer, options, ids) for _ in range(repeats)), strict=True)
        yield ParseSample(mode.name.lower(), len(ids), Times(seconds, cpu_seconds))


def _answer_ids(tokenizer: Tokenizer, tokens: int) -> list[int]:
    """What the model would have said: a thought, text and many calls, of about that many tokens."""
    source = AgentText(0)
    thought, text = source.prose(tokens // 3), source.prose(tokens // 6)
    calls = tuple(
        ToolCall(str(number), source.name(), json.dumps({"path": source.path(), "text": source.prose(60), "n": number}))
        for number in range(tokens // 250)
    )
    tools, asked = (ToolDefinition("tool"),), UserMessage("go")
    before = Conversation((asked,), tools=tools)
    after = Conversation((asked, AssistantMessage(text, thought, calls)), tools=tools)
    whole, prompt = (tokenizer.encode_segments(encode(c, ModelVersion.V4).segments) for c in (after, before))
    return whole[len(prompt) :]


def _parse(tokenizer: Tokenizer, options: ParseOptions, ids: Sequence[int]) -> tuple[float, float]:
    """Seconds per token, and of processor time."""
    parser = OutputParser(options, tokenizer)
    start, cpu_start = perf_counter(), process_time()
    for token_id in ids:
        parser.feed_ids((token_id,))
    parser.finish(BackendReason.STOP)
    return (perf_counter() - start) / len(ids), (process_time() - cpu_start) / len(ids)
