"""The body of a chat completion with logprobs, read strictly: what was said, and each step's candidates as bytes."""

import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

from whitedwarf.errors import EndpointError


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token by its bytes, and its log-probability."""

    data: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class Step:
    """The token that was taken, and the likeliest ones."""

    chosen: Candidate
    top: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """`steps` is empty where no logprobs were sent; `drawn_tokens` is what the usage counts, None where it does not."""

    text: str
    steps: tuple[Step, ...]
    finish_reason: str | None
    model: str | None
    drawn_tokens: int | None = None

    @property
    def has_gap(self) -> bool:
        """Whether tokens were drawn that are no steps: control tokens, say, which servers list only as far as they are
        text. The one that ends an answer may be counted without being a step."""
        not_listed = 0 if self.drawn_tokens is None else self.drawn_tokens - len(self.steps)
        return bool(self.steps) and not_listed > (self.finish_reason != "length")


def read_reply(body: bytes) -> Reply:
    """EndpointError for what is no chat completion."""
    value = _json(body)
    choices = value.get("choices") if isinstance(value, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        _wrong("choices[0].message", value)
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        _wrong("choices[0].message.content", content)
    steps = _steps(choice.get("logprobs"))
    reason, model = choice.get("finish_reason"), value.get("model")
    return Reply(
        _whole_text(content or "", steps),
        steps,
        reason if isinstance(reason, str) else None,
        model if isinstance(model, str) else None,
        _drawn_tokens(value.get("usage")),
    )


def _drawn_tokens(usage: object) -> int | None:
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return count if type(count) is int else None


def _json(body: bytes) -> Any:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EndpointError(f"the answer is not UTF-8 text (byte {error.start}); is this an API's address?") from error
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        is_page = text.lstrip().startswith("<")
        found = "a web page" if is_page else f"{' '.join(text.split())[:80]!r}"
        raise EndpointError(
            f"expected a chat completion as JSON, got {found}; is --endpoint an API's address, and no proxy in between?"
        ) from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _wrong(where: str, value: object) -> NoReturn:
    raise EndpointError(f"the answer has no proper {where}; got {json.dumps(value, default=str)[:120]}")


def _steps(logprobs: object) -> tuple[Step, ...]:
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if content is None:
        return ()
    if not isinstance(content, list):
        _wrong("choices[0].logprobs.content", content)
    return tuple(_step(entry, f"logprobs.content[{number}]") for number, entry in enumerate(content))


def _step(entry: object, where: str) -> Step:
    top = entry.get("top_logprobs") if isinstance(entry, dict) else None
    if top is not None and not isinstance(top, list):
        _wrong(f"{where}.top_logprobs", top)
    candidates = (_candidate(item, f"{where}.top_logprobs[{number}]") for number, item in enumerate(top or ()))
    return Step(_candidate(entry, where), tuple(candidates))


def _candidate(entry: object, where: str) -> Candidate:
    if not isinstance(entry, dict):
        _wrong(where, entry)
    logprob, token, data = entry.get("logprob"), entry.get("token"), entry.get("bytes")
    if not isinstance(logprob, int | float) or isinstance(logprob, bool) or not math.isfinite(logprob):
        _wrong(f"{where}.logprob", logprob)
    if isinstance(data, list):
        if not all(type(byte) is int and 0 <= byte < 256 for byte in data):
            _wrong(f"{where}.bytes", data)
        return Candidate(bytes(data), float(logprob))
    if not isinstance(token, str):
        _wrong(f"{where}.token", token)
    return Candidate(token.encode("utf-8", "surrogatepass"), float(logprob))


def _whole_text(content: str, steps: tuple[Step, ...]) -> str:
    """The answer up to its last whole character: a limit on tokens may cut one, which becomes U+FFFD in `content`."""
    if not content.endswith("\ufffd"):
        return content
    spelt = b"".join(step.chosen.data for step in steps)
    whole = content.rstrip("\ufffd")
    if not steps or not spelt.startswith(whole.encode("utf-8", "replace")):
        return whole
    return _without_cut_end(spelt) or whole


def _without_cut_end(data: bytes) -> str | None:
    for cut in range(4):
        try:
            return data[: len(data) - cut].decode("utf-8")
        except UnicodeDecodeError:
            continue
    return None
