"""Long prompts: who waits behind one, what a restart costs, what the next turn costs.

Prompts are prose made up from a seed, as long as a tokenizer says; a server of another model counts otherwise.
"""

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import sleep

from whitedwarf.bench.recipe_text import AgentText
from whitedwarf.bench.serve_client import CHAT, Address, Streamed, chat_body, streamed, user
from whitedwarf.bench.serve_process import started
from whitedwarf.conversation.json_value import Json
from whitedwarf.errors import WhitedwarfError

SHORT_WORDS = 12
MOST_ATTEMPTS = 4
SPARE_TOKENS = 2048  # of context, for the template and the answers


@dataclass(frozen=True, slots=True)
class WaitingSample:
    """Seconds to a short request's first token: idle, and while a long prompt is read, whose chunks took `chunk_s`."""

    long_tokens: int
    chunk_s: float
    idle_s: tuple[float, ...]
    waiting_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RestoreSample:
    """Seconds to the first token: computed, and from disk after each restart, with the tokens that came from there."""

    tokens: int
    prefill_s: float
    restored_s: tuple[float, ...]
    cached_tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TurnsSample:
    """Seconds to the first token of a long conversation's first turn, and of each that followed."""

    tokens: int
    first_s: float
    next_s: tuple[float, ...]
    cached_tokens: tuple[int, ...]
    computed_tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prose:
    """Texts of about so many tokens, as `count` counts them."""

    count: Callable[[str], int]

    def text(self, seed: int, tokens: int) -> str:
        words = AgentText(seed).prose(tokens).split(" ")
        share = min(1.0, tokens / self.count(" ".join(words)))
        return " ".join(words[: max(1, int(len(words) * share))])


def ask(address: Address, text: str, max_tokens: int = 1) -> Streamed:
    """One user message."""
    return streamed(address, CHAT, chat_body([user(text)], max_tokens))


def measure_waiting(address: Address, prose: Prose, tokens: int, repeats: int, chunk_tokens: int) -> WaitingSample:
    """Short requests at even distances through the reading of one long prompt."""
    ask(address, prose.text(1, tokens))  # warm-up
    alone = ask(address, prose.text(2, tokens))
    idle = tuple(ask(address, AgentText(10 + n).prose(SHORT_WORDS)).first_token_s for n in range(repeats))
    for attempt in range(1, MOST_ATTEMPTS + 1):  # on a busy machine the same takes half as long the next time
        waiting = _probes(address, prose.text(2 + attempt, tokens), alone.first_token_s / attempt, repeats)
        if waiting:
            break
    else:
        raise WhitedwarfError("the long prompt was read before any short request came: give more --tokens")
    chunks = -(-alone.prompt_tokens // chunk_tokens)
    return WaitingSample(alone.prompt_tokens, alone.first_token_s / chunks, idle, waiting)


def _probes(address: Address, long_text: str, expected_s: float, repeats: int) -> tuple[float, ...]:
    """Seconds of each short request that came while the long prompt was read."""
    found: list[Streamed] = []
    long_one = threading.Thread(target=lambda: found.append(ask(address, long_text)), daemon=True)
    long_one.start()
    probes = []
    for number in range(repeats):
        sleep(expected_s / (repeats + 1))
        probes.append(ask(address, AgentText(1000 + number).prose(SHORT_WORDS)))
    long_one.join()
    if not found:
        raise WhitedwarfError("the long request was not answered, see the server's log")
    return tuple(probe.first_token_s for probe in probes if probe.sent_s < found[0].token_times_s[0])


def measure_restore(model_flags: Sequence[str], prose: Prose, tokens: int, repeats: int) -> RestoreSample:
    """A long first turn, computed; then, after each of `repeats` restarts with the same folder, another second turn.

    Before each a short request wakes the server up.
    """
    with tempfile.TemporaryDirectory() as folder:
        keep = ["--kv-disk-dir", folder, "--kv-cache-cold-max-tokens", str(tokens + SPARE_TOKENS)]
        flags = [*model_flags, *keep, "--kv-disk-space-mb", "65536", "--ctx", str(tokens + 2 * SPARE_TOKENS)]
        with _woken(flags) as address:
            said = [user(prose.text(1, tokens))]
            first = streamed(address, CHAT, chat_body(said, 1))  # so that what is kept is the prompt and no more
        said.append({"role": "assistant", "content": first.text})
        restored = []
        for number in range(repeats):
            with _woken(flags) as address:
                question = user(AgentText(number).prose(SHORT_WORDS))
                restored.append(streamed(address, CHAT, chat_body([*said, question], 1)))
    cached = tuple(one.cached_tokens for one in restored)
    return RestoreSample(first.prompt_tokens, first.first_token_s, tuple(o.first_token_s for o in restored), cached)


@contextmanager
def _woken(flags: Sequence[str]) -> Iterator[Address]:
    with started(flags) as server:
        address = Address("127.0.0.1", server.port)
        ask(address, "Hello")
        yield address


def measure_turns(address: Address, prose: Prose, tokens: int, repeats: int) -> TurnsSample:
    """A conversation that begins with a long message, then goes on turn by turn."""
    said: list[Json] = [user(prose.text(4, tokens))]
    turns = []
    for number in range(repeats + 1):
        turns.append(streamed(address, CHAT, chat_body(said, 32)))
        said += [{"role": "assistant", "content": turns[-1].text}, user(AgentText(number).prose(SHORT_WORDS))]
    first, *others = turns
    return TurnsSample(
        tokens=first.prompt_tokens,
        first_s=first.first_token_s,
        next_s=tuple(turn.first_token_s for turn in others),
        cached_tokens=tuple(turn.cached_tokens for turn in others),
        computed_tokens=tuple(turn.prompt_tokens - turn.cached_tokens for turn in others),
    )
