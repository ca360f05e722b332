"""How many tokens a request has, asked of the model's own server: exact, since the same template and tokenizer count.

Promises: bounded in time, also over many requests (a server that has no counter or is too slow is not asked for every
one); None whenever there is no number, for whatever reason, with the reason in `status`.
"""

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

from whitedwarf.supervisor.config import ManagedModel, Model
from whitedwarf.supervisor.failures import UpstreamError
from whitedwarf.supervisor.running import Running
from whitedwarf.supervisor.upstream import Address, Answer, ask

_TIMEOUT_S = 10.0
_PAUSE_AFTER_TIMEOUT_S = 60.0
_COUNTERS = {
    "/v1/chat/completions": "/v1/chat/completions/input_tokens",
    "/v1/responses": "/v1/responses/input_tokens",
    "/v1/messages": "/v1/messages/count_tokens",
}
_NOT_HERE = (404, 405, 501)


def counter_of(path: str) -> str | None:
    """The address that counts what is sent to this one; None where nothing does (spec 2.11)."""
    whole = path if path.startswith("/v1/") else "/v1" + path
    return _COUNTERS.get(whole.rstrip("/"))


def server_key(model: Model) -> str | None:
    """The API key that the model's server wants of everybody, us too."""
    if not isinstance(model, ManagedModel):
        return os.environ.get(model.api_key_variable or "", "").strip() or None
    words = model.arguments
    named = [word.removeprefix("--api-key=") for word in words if word.startswith("--api-key=")]
    named += [after for word, after in itertools.pairwise(words) if word == "--api-key"]
    files = [after for word, after in itertools.pairwise(words) if word == "--api-key-file"]
    named += [key for file in files if (key := _first_line(Path(file)))]
    named += [value for name, value in model.environment if name == "LLAMA_API_KEY"]
    return named[0].split(",")[0] if named else None


def _first_line(file: Path) -> str | None:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.strip() for line in lines if line.strip() and not line.startswith("#")), None)


class Counter:
    """Of one model. `status`: what came of it last."""

    def __init__(self, clock: Callable[[], float], timeout_s: float = _TIMEOUT_S) -> None:
        self.status = "not asked yet"
        self._clock = clock
        self._timeout_s = timeout_s
        self._without: set[str] = set()  # counters that _running does not have
        self._running: Running | None = None
        self._paused_until_s = float("-inf")

    async def count(self, model: Model, running: Running, path: str, body: bytes) -> int | None:
        """The tokens of this request, or None."""
        counter = counter_of(path)
        if running is not self._running:  # another process, perhaps of another build
            self._running, self._without = running, set()
            self._paused_until_s = float("-inf")
        if counter is None or counter in self._without or self._clock() < self._paused_until_s:
            return None
        try:
            answer = await self._ask(model, running.address, counter, body)
        except UpstreamError as error:
            self._paused_until_s = self._clock() + (0 if running.has_exited else _PAUSE_AFTER_TIMEOUT_S)
            self.status = f"unavailable: {error}"
            return None
        return self._read(counter, answer)

    async def _ask(self, model: Model, address: Address, counter: str, body: bytes) -> Answer:
        headers = [(b"Content-Type", b"application/json"), (b"Accept", b"application/json")]
        if key := server_key(model):
            headers.append((b"Authorization", b"Bearer " + key.encode()))
        target = counter.removeprefix("/v1") if address.prefix.endswith("/v1") else counter
        return await ask(address, "POST", target, headers, body, timeout_s=self._timeout_s)

    def _read(self, counter: str, answer: Answer) -> int | None:
        if answer.status == 400:  # the request makes no sense, which the server will say in its own words
            return None
        if answer.status != 200:
            if answer.status in _NOT_HERE:
                self._without.add(counter)
            self.status = f"unavailable: the server answers {counter} with {answer.status}"
            return None
        tokens = _tokens(answer.body)
        has_none = f"unavailable: the server's answer to {counter} has no input_tokens"
        self.status = "exact" if tokens is not None else has_none
        return tokens


def _tokens(body: bytes) -> int | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    tokens = value.get("input_tokens") if isinstance(value, dict) else None
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0 else None
