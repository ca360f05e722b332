"""One chat completion over HTTP, as a stream that can be ended at once from any thread.

Promises: what may pass is tried again, but only while nothing of the answer has come; redirects are not followed, so
that the key goes to the named host only, and it is in no message; whatever goes wrong is an EndpointError in words for
the user (ContextOverflowError where the prompt is too long).
"""

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import httpx2

from whitedwarf.errors import ContextOverflowError, EndpointError, UsageError, WhitedwarfError
from whitedwarf.web.endpoint.address import CHAT_PATH
from whitedwarf.web.endpoint.again import AskAgainError, asked_pause_s, may_pass
from whitedwarf.web.endpoint.complaint import complaint
from whitedwarf.web.endpoint.event_lines import StreamError
from whitedwarf.web.endpoint.server_options import ServerOptions
from whitedwarf.web.endpoint.streamed_body import TIMEOUT, BodyReader, beginning, read_body, told

ATTEMPTS = 5
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0  # each pause is twice the one before
# Members that a server may not know: one that complains about them does without.
DISPENSABLE = ("thinking", "reasoning_effort", "min_p", "top_k", "seed", "stream_options", "tool_choice")
_SHOWN = 300  # characters of an address
_TOO_LONG = re.compile(r"context|too long|too many tokens|maximum.{0,20}tokens", re.IGNORECASE)
_KEEP_OUT = "the key comes from the variable that --api-key-env names"


class Reader(BodyReader, Protocol):
    """Reads what comes; what its methods raise ends the request and comes out of `ask`."""

    @property
    def has_begun(self) -> bool:
        """Whether anything of an answer has come."""
        ...


@dataclass(slots=True)
class _Interruption:
    """At most one request can be interrupted: the one in hand."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: Callable[[], None] | None = None
    is_asking: bool = False
    is_wanted: bool = False


class ChatClient:
    """One server. UsageError for an address that no request can go to."""

    def __init__(
        self, options: ServerOptions, notice: Callable[[str], None], first_pause_s: float = FIRST_PAUSE_S
    ) -> None:
        """`notice` is told, in a line, why an answer takes longer."""
        try:
            httpx2.URL(options.base)
        except httpx2.InvalidURL as error:
            raise UsageError(f"--url {options.base}: {error}") from error
        self._options = options
        self._url = options.base + CHAT_PATH
        self._notice = notice
        self._first_pause_s = first_pause_s
        self._interruption = _Interruption()
        self._unknown: set[str] = set()  # members that this server does not take

    def ask(self, body: Mapping[str, Any], reader: Reader) -> bool:
        """Have the reader read the answer; False when it was interrupted."""
        with self._interruption.lock:
            self._interruption.is_asking, self._interruption.is_wanted = True, False
        try:
            return anyio.run(self._ask, body, reader)
        finally:
            with self._interruption.lock:
                self._interruption.is_asking, self._interruption.stop = False, None

    def interrupt(self) -> None:
        """End the request in hand, from any thread; without one, nothing."""
        with self._interruption.lock:
            if not self._interruption.is_asking:
                return
            self._interruption.is_wanted = True
            if self._interruption.stop is not None:
                self._interruption.stop()

    async def _ask(self, body: Mapping[str, Any], reader: Reader) -> bool:
        with anyio.CancelScope() as scope:
            loop = asyncio.get_running_loop()

            def stop() -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended, and the request with it
                    loop.call_soon_threadsafe(scope.cancel)

            with self._interruption.lock:
                self._interruption.stop = stop
                if self._interruption.is_wanted:
                    scope.cancel()
            await self._attempts(body, reader)
        return not scope.cancelled_caught

    async def _attempts(self, body: Mapping[str, Any], reader: Reader) -> None:
        pause_s = self._first_pause_s
        attempt = 0
        while True:
            try:
                await self._attempt(body, reader)
                return
            except _UnknownMembersError as error:
                self._unknown |= error.members
                self._notice(f"the server does not know {', '.join(sorted(error.members))}: asking without")
            except AskAgainError as error:
                attempt += 1
                if reader.has_begun:
                    raise EndpointError(f"the answer broke off: {error}") from error
                if attempt == ATTEMPTS:
                    raise EndpointError(f"{error}; {ATTEMPTS} attempts") from error
                wait_s = min(max(pause_s, error.wait_s), LONGEST_PAUSE_S)
                self._notice(f"{error}; trying again in {wait_s:.0f} s")
                await anyio.sleep(wait_s)
                pause_s *= 2

    async def _attempt(self, body: Mapping[str, Any], reader: Reader) -> None:
        sent = {name: value for name, value in body.items() if value is not None and name not in self._unknown}
        data = json.dumps(sent, ensure_ascii=False).encode("utf-8", "replace")  # names of files may be no text
        headers = {"Content-Type": "application/json", **self._options.headers}
        try:
            async with (
                httpx2.AsyncClient(timeout=TIMEOUT, headers=headers, follow_redirects=False) as client,
                client.stream("POST", self._url, content=data) as response,
            ):
                if response.status_code != 200:
                    raise self._refusal(response, await beginning(response), sent)
                await read_body(response, reader)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise AskAgainError(f"{self._url} does not answer ({told(error)}); is the server running?") from error
        except httpx2.HTTPError as error:
            raise AskAgainError(f"the connection failed ({told(error)})") from error
        except StreamError as error:
            text = self._options.hidden(str(error))
            raise (AskAgainError(text) if error.may_help else EndpointError(text)) from error

    def _refusal(self, response: httpx2.Response, body: bytes, sent: Mapping[str, Any]) -> WhitedwarfError:
        """What a status that is not 200 means."""
        status = response.status_code
        said = self._options.hidden(complaint(body)) or "nothing more"
        text = f"{self._url} answers {status}: {said}"
        if may_pass(status):
            return AskAgainError(text, asked_pause_s(response.headers))
        if status in (400, 413, 422):
            return _refused_request(status, said, text, sent)
        if status in (401, 403):
            return EndpointError(f"{text}; name a variable with the right key: --api-key-env")
        if 300 <= status < 400:
            where = self._options.hidden(response.headers.get("Location", "elsewhere"))[:_SHOWN]
            return EndpointError(f"{text}; it points to {where}: give that as --url if it is yours ({_KEEP_OUT})")
        if status in (404, 405):
            return EndpointError(f"{text}; check --url and --model-name")
        return EndpointError(text)


class _UnknownMembersError(WhitedwarfError):
    """The server does not take these members of the request."""

    def __init__(self, text: str, members: set[str]) -> None:
        super().__init__(text)
        self.members = members


def _refused_request(status: int, said: str, text: str, sent: Mapping[str, Any]) -> WhitedwarfError:
    unknown = {name for name in DISPENSABLE if name in sent and re.search(rf"\b{name}\b", said)}
    if unknown and status != 413:
        return _UnknownMembersError(text, unknown)
    if status == 413 or _TOO_LONG.search(said):
        return ContextOverflowError(f"{text}; a smaller --ctx has the conversation shortened earlier")
    if "tools" in sent and re.search(r"\btools?\b|\bfunctions?\b", said, re.IGNORECASE):
        return EndpointError(f"{text}; the agent needs a model that takes tools: name another with --model-name")
    return EndpointError(text)
