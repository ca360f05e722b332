"""Any server that speaks OpenAI's Chat Completions: llama-server, vLLM, DeepSeek's own, `whitedwarf serve`.

Promises: what may pass (a busy server, a cut connection) is tried again with growing pauses and the answer begins
anew; what will not (a wrong key, no such model) ends the exam at once, and so does nobody there in the end; the key
goes nowhere else, and into no message.
Thoughts are limited by max_tokens alone: a server shows no logits before a token is drawn.
"""

from collections.abc import Mapping
from typing import Any

import anyio
import httpx2

from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.evals.answer import Answer
from whitedwarf.evals.case import Case
from whitedwarf.evals.chat_stream import ChatReader
from whitedwarf.evals.prompts import SYSTEM_PROMPT, question_prompt
from whitedwarf.evals.target import Asking, NoMoreQuestionsError, TargetFacts
from whitedwarf.web.endpoint.address import CHAT_PATH
from whitedwarf.web.endpoint.again import AskAgainError, asked_pause_s, may_pass
from whitedwarf.web.endpoint.complaint import complaint
from whitedwarf.web.endpoint.event_lines import StreamError
from whitedwarf.web.endpoint.model_list import ask_models
from whitedwarf.web.endpoint.server_options import ServerOptions
from whitedwarf.web.endpoint.streamed_body import TIMEOUT, beginning, read_body, told

ATTEMPTS = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0  # each pause is twice the one before
_FOR_ALL = (401, 402, 403, 404)


class UrlTarget:
    """One server, and one of its models. UsageError for an address that no request can go to."""

    def __init__(self, options: ServerOptions, first_pause_s: float = FIRST_PAUSE_S) -> None:
        self._options = options
        self._first_pause_s = first_pause_s
        self._model = options.model or ""
        try:
            httpx2.URL(options.base)
        except httpx2.InvalidURL as error:
            raise UsageError(f"--url {options.base}: {error}") from error

    @property
    def facts(self) -> TargetFacts:
        """The address stands in the place of a backend."""
        return TargetFacts(self._model, "", self._options.base, None)

    def find_model(self) -> None:
        """Where none is named: the server's only one. UsageError where it has several or will not say."""
        if self._model:
            return
        names = self._model_names()
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
            except AskAgainError as error:
                if attempt == ATTEMPTS:
                    raise WhitedwarfError(f"{error}; {ATTEMPTS} attempts") from error
                await anyio.sleep(min(max(pause_s, error.wait_s), LONGEST_PAUSE_S))
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
        url = self._options.base + CHAT_PATH
        try:
            async with (
                httpx2.AsyncClient(timeout=TIMEOUT, headers=self._options.headers) as client,
                client.stream("POST", url, json=body) as response,
            ):
                if response.status_code != 200:
                    raise self._refusal(response.status_code, response.headers, await beginning(response), url)
                await read_body(response, ChatReader(answer, asking.thinking))
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            if answer.num_attempts < ATTEMPTS:
                raise AskAgainError(f"{url}: {told(error)}") from error
            raise NoMoreQuestionsError(f"{url} does not answer: {told(error)}; is the server running?") from error
        except httpx2.HTTPError as error:
            raise AskAgainError(f"the connection failed: {told(error)}") from error
        except StreamError as error:
            text = self._options.hidden(str(error))
            raise (AskAgainError(text) if error.may_help else WhitedwarfError(text)) from error

    def _refusal(self, status: int, headers: Mapping[str, str], body: bytes, url: str) -> WhitedwarfError:
        """What a status that is not 200 means."""
        text = f"{url} answers {status}: {self._options.hidden(complaint(body)) or 'nothing more'}"
        if may_pass(status):
            return AskAgainError(text, asked_pause_s(headers))
        if status in (401, 403):
            return NoMoreQuestionsError(f"{text}; name a variable with the right key: --api-key-env")
        return NoMoreQuestionsError(text) if status in _FOR_ALL else WhitedwarfError(text)

    def _model_names(self) -> list[str]:
        listed = ask_models(self._options)
        if listed.status in (401, 403):
            raise self._refusal(listed.status, {}, listed.body, listed.url)
        return listed.names
