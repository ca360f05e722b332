"""Tokens a second of several streams at once, all together.

Protocol: so many clients ask short questions again and again, drawn at temperature 1; the first fifth of the
window is warm-up; the tokens that come in the rest are counted. Numbers of clients take turns.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, sleep

from whitedwarf.bench.recipe_text import AgentText
from whitedwarf.bench.serve_client import CHAT, Address, chat_body, streamed, user

CLIENTS = (1, 2, 4, 8)
WARM_UP = 0.2  # of the window
ANSWER_TOKENS = 256


@dataclass(frozen=True, slots=True)
class StreamsSample:
    """Tokens per second of all clients together, one figure for each repetition."""

    clients: int
    tokens_per_s: tuple[float, ...]


def measure_streams(address: Address, window_s: float, repeats: int) -> list[StreamsSample]:
    """Each number of CLIENTS, `repeats` times."""
    _window(address, CLIENTS[-1], window_s, seed=-1)
    rates: dict[int, list[float]] = {clients: [] for clients in CLIENTS}
    for repeat in range(repeats):
        for clients in CLIENTS:
            rates[clients].append(_window(address, clients, window_s, seed=repeat))
    return [StreamsSample(clients, tuple(found)) for clients, found in rates.items()]


def _window(address: Address, clients: int, window_s: float, seed: int) -> float:
    start_s = perf_counter()
    end_s = start_s + window_s
    moments: list[Sequence[float]] = []
    failures: list[Exception] = []

    def ask(number: int) -> None:
        source = AgentText(1000 * seed + number)
        try:
            while perf_counter() < end_s:
                body = chat_body([user(source.prose(20))], ANSWER_TOKENS)
                moments.append(streamed(address, CHAT, body).token_times_s)
        except Exception as error:  # told by the thread that can end the run
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    counted_s = start_s + WARM_UP * window_s
    sleep(0.05)  # the server notices that everybody has gone
    return sum(counted_s <= moment < end_s for one in moments for moment in one) / (end_s - counted_s)
