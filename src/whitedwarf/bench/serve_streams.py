"""Tokens a second of several streams at once, all together.

Protocol: first questions are looked for whose answers do not end early (a seed gives the same answer each time). Then
so many clients ask each its own again and again; the first fifth of the window is warm-up, the tokens that come in the
rest are counted. Numbers of clients take turns.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TypeAlias, TypeVar

from whitedwarf.bench.recipe_text import AgentText
from whitedwarf.bench.serve_client import CHAT, Address, Heard, chat_body, heard, streamed, user
from whitedwarf.conversation.json_value import Json

Body: TypeAlias = dict[str, Json]
T = TypeVar("T")

CLIENTS = (1, 2, 4, 8)
WARM_UP = 0.2  # of the window
ANSWER_TOKENS = 256
MOST_TRIES = 160


@dataclass(frozen=True, slots=True)
class StreamsSample:
    """Tokens per second of all clients together, one figure for each repetition."""

    clients: int
    tokens_per_s: tuple[float, ...]


def measure_streams(address: Address, window_s: float, repeats: int) -> list[StreamsSample]:
    """Each number of CLIENTS, `repeats` times."""
    bodies = _long_winded(address, CLIENTS[-1])
    _window(address, bodies, window_s)
    rates: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    for _ in range(repeats):
        for clients in CLIENTS:
            rates[clients].append(_window(address, bodies[:clients], window_s))
    return [StreamsSample(clients, tuple(found)) for clients, found in rates.items()]


def _body(seed: int) -> Body:
    asked = chat_body([user(AgentText(seed).prose(20))], ANSWER_TOKENS, temperature=2.0)
    # A peer that knows how may be told; ours does not, so that its answers are what clients get.
    return asked | {"seed": seed, "min_p": 0.0, "ignore_eos": True}


def _long_winded(address: Address, count: int) -> list[Body]:
    """So many requests with the longest answers of those tried, trying until all are as long as they may be."""
    tried: list[tuple[int, int]] = []
    for first in range(1, MOST_TRIES, count):
        seeds = range(first, first + count)
        answers = _together([partial(streamed, address, CHAT, _body(seed)) for seed in seeds])
        tried += [(-answer.generated_tokens, seed) for answer, seed in zip(answers, seeds, strict=True)]
        if sorted(tried)[count - 1][0] == -ANSWER_TOKENS:
            break
    return [_body(seed) for _, seed in sorted(tried)[:count]]


def _window(address: Address, bodies: Sequence[Body], window_s: float) -> float:
    start_s = perf_counter()
    end_s = start_s + window_s

    def ask(body: Body) -> list[Heard]:
        answers: list[Heard] = []
        while perf_counter() < end_s:
            answers.append(heard(address, CHAT, body))
        return answers

    answers = [answer for some in _together([partial(ask, body) for body in bodies]) for answer in some]
    counted_s = start_s + WARM_UP * window_s
    # Read only now: while it is measured the clients leave the processors to the server.
    moments = [moment for answer in answers for moment in answer.read().token_times_s]
    return sum(counted_s <= moment < end_s for moment in moments) / (end_s - counted_s)


def _together(works: Sequence[Callable[[], T]]) -> list[T]:
    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(lambda work: work(), works))
