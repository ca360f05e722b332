"""Any server that speaks OpenAI's Chat Completions: llama-server, vLLM, DeepSeek's own, `whitedwarf serve`.

Promises: what may pass (a busy server, a cut connection) is tried again with growing pauses and the answer begins
anew; what will not (a wrong key, no such model, nobody there) ends the exam at once; the key goes nowhere else.
Thoughts are limited by max_tokens alone: a server shows no logits before a token is drawn.
"""

from collections.abc import Mapping
from typing import Any

import anyio
import httpx2

from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.evals.answer import Answer
from whitedwarf.evals.case import Case
from whitedwarf.evals.chat_stream import ChatReader, EventLines, StreamError, told_error
from whitedwarf.evals.prompts import SYSTEM_PROMPT, question_prompt
from whitedwarf.evals.server_options import CHAT, ServerOptions
from whitedwarf.evals.target import Asking, NoMoreQuestionsError, TargetFacts

ATTEMPTS = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0  # each pause is twice the one before
_TIMEOUT = httpx2.Timeout(30.0, read=900.0, write=60.0)  # a long prompt may be read without a sign of life
_TRY_AGAIN = (408, 409, 425, 429, 500, 502, 503, 504, 529)
_FOR_ALL = (401, 402, 403, 404)
_LONGEST_ERROR = 1 << 16  # bytes
_LONGEST_ANSWER = 1 << 28  # bytes of one stream; a million tokens with their JSON stay below


class TryAgainError(WhitedwarfError):
    """It failed in a way that may pass; `pause_s` is what the server asked for."""

    def __init__(self, text: str, pause_s: float = 0.0) -> None:
        super().__init__(text)
        self.pause_s = pause_s


class UrlTarget:
    """One server, and one of its models."""

    def __init__(self, options: ServerOptions, first_pause_s: float = FIRST_PAUSE_S) -> None:
        self._options = options
        self._first_pause_s = first_pause_s
        self._model = options.model or ""

    @property
    def facts(self) -> TargetFacts:
        """The address stands in the place of a backend."""
        return TargetFacts(self._model, "", self._options.base, None)

    def find_model(self) -> None:
        """Where none is named: the server's only one. UsageError where it has several or will not say."""
        if self._model:
            return
        names = _model_names(self._options)
        if len(names) != 1:
            known = f"it has {', '.join(names[:12])}" if names else "it names none"
            raise UsageError(f"which model of {self._options.base}? Give --model NAME; {known}")
        self._model = names[0]

    def why_skipped(self, case: Case) -> str | None:
        """Only the server knows its tokens and its context."""
        return None

    def pause(self, is_paused: bool) -> None:
        """A server cannot be held: what is coming comes to its end."""

    async def ask(self, case: Case, asking: Asking, answer: Answer) -> None:
        """As Target.ask."""
        body = self._body(case, asking)
        pause_s = self._first_pause_s
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._attempt(body, asking, answer)
                return
            except TryAgainError as error:
                if attempt == ATTEMPTS:
                    raise WhitedwarfError(f"{error}; {ATTEMPTS} attempts") from error
                await anyio.sleep(min(max(pause_s, error.pause_s), LONGEST_PAUSE_S))
                pause_s *= 2
                answer.again(str(error))

    def _body(self, case: Case, asking: Asking) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [
                {"role": "system", "content": SYSTEM_PROMPT},
                {"role": "user", "content": question_prompt(case)},
            ],
            "max_tokens": asking.max_tokens,
            "temperature": asking.temperature,
            "top_p": asking.top_p,
            "seed": asking.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if asking.temperature:
            body["min_p"] = asking.min_p
        if asking.thinking == "none":
            body["thinking"] = {"type": "disabled"}
        else:
            body |= {"thinking": {"type": "enabled"}, "reasoning_effort": asking.thinking}
        return {name: value for name, value in (body | dict(self._options.extra)).items() if value is not None}

    async def _attempt(self, body: Mapping[str, Any], asking: Asking, answer: Answer) -> None:
        url = self._options.base + CHAT
        try:
            async with (
                httpx2.AsyncClient(timeout=_TIMEOUT, headers=self._options.headers) as client,
                client.stream("POST", url, json=body) as response,
            ):
                if response.status_code != 200:
                    await _refused(response, url)
                await _read(response, ChatReader(answer, asking.thinking))
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if answer.num_attempts < ATTEMPTS:
                raise TryAgainError(f"{url}: {_told(error)}") from error
            raise NoMoreQuestionsError(f"{url} does not answer: {_told(error)}; is the server running?") from error
        except httpx2.HTTPError as error:
            raise TryAgainError(f"the connection failed: {_told(error)}") from error
        except StreamError as error:
            if error.may_help:
                raise TryAgainError(str(error)) from error
            raise


async def _read(response: httpx2.Response, reader: ChatReader) -> None:
    """The answer as it comes, or as a whole from a server that does not stream."""
    is_stream = "event-stream" in response.headers.get("content-type", "")
    lines, whole, num_bytes = EventLines(), bytearray(), 0
    async for data in response.aiter_bytes():
        num_bytes += len(data)
        if num_bytes > _LONGEST_ANSWER:
            raise WhitedwarfError(f"the server's answer does not end: more than {_LONGEST_ANSWER} bytes came")
        if not is_stream:
            whole += data
            continue
        for event in lines.feed(data):
            reader.take(event)
    if not is_stream:
        reader.take(whole.decode("utf-8", "replace"))
    reader.finish()


async def _refused(response: httpx2.Response, url: str) -> None:
    """Raise what the status means."""
    body = b""
    async for data in response.aiter_bytes():
        body += data
        if len(body) > _LONGEST_ERROR:
            break
    _raise(response, body, url)


def _raise(response: httpx2.Response, body: bytes, url: str) -> None:
    status = response.status_code
    text = f"{url} answers {status}: {_error_text(body)}"
    if status in _TRY_AGAIN:
        raise TryAgainError(text, _asked_pause_s(response.headers.get("retry-after", "")))
    if status in (401, 403):
        raise NoMoreQuestionsError(f"{text}; name a variable with the right key: --api-key-env")
    if status in _FOR_ALL:
        raise NoMoreQuestionsError(text)
    raise WhitedwarfError(text)


def _error_text(body: bytes) -> str:
    try:
        return told_error(httpx2.Response(200, content=body).json())
    except (ValueError, RecursionError):
        return " ".join(body[:300].decode("utf-8", "replace").split()) or "nothing more"


def _asked_pause_s(value: str) -> float:
    return min(float(value), LONGEST_PAUSE_S) if value.isascii() and value.isdigit() and len(value) < 6 else 0.0


def _model_names(options: ServerOptions) -> list[str]:
    url = options.base + "/models"
    try:
        response = httpx2.get(url, headers=options.headers, timeout=_TIMEOUT)
    except httpx2.HTTPError as error:
        raise WhitedwarfError(f"{url} does not answer: {_told(error)}; is the server running?") from error
    if response.status_code in (401, 403):
        raise WhitedwarfError(
            f"{url} answers {response.status_code}: {_error_text(response.content)}; name a variable with the right "
            "key: --api-key-env"
        )
    try:
        listed = response.json()["data"] if response.status_code == 200 else []
        return [model["id"] for model in listed if isinstance(model["id"], str)]
    except (ValueError, RecursionError, KeyError, TypeError):
        return []


def _told(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
