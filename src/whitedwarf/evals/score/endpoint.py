"""One chat completion from an endpoint of the OpenAI shape, as DeepSeek's: a request's bytes there, the answer's back.

httpx2 is imported with the first question.
Promises: answers are bounded in size and time; redirects are not followed, so that the key goes to the named host only;
every failure is an EndpointError in words for the user, an AskAgainError where trying again may help, or a
RefusedPromptError where this request alone was refused. No message has the key.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from whitedwarf.errors import EndpointError, UsageError
from whitedwarf.web.endpoint.address import CHAT_PATH, checked_address
from whitedwarf.web.endpoint.again import AskAgainError, asked_pause_s, may_pass
from whitedwarf.web.endpoint.api_key import ApiKey
from whitedwarf.web.endpoint.complaint import complaint

if TYPE_CHECKING:
    from httpx2 import Response

DEFAULT_ENDPOINT = "https://api.deepseek.com"
KEY_VARIABLE = "DEEPSEEK_API_KEY"
MOST_BYTES = 8 << 20
_SILENCE_S = 120.0  # for a connection, and between two pieces of an answer
_WHOLE_S = 600.0
_SHOWN = 300  # characters of an address


class RefusedPromptError(EndpointError):
    """The endpoint does not answer this request (HTTP 400, 413, 422); others may be fine."""


def completions_url(text: str) -> str:
    """Where to ask: an API's base, or the whole address of its chat completions. UsageError for what is neither."""
    parts = checked_address(text.strip(), "--endpoint", DEFAULT_ENDPOINT, KEY_VARIABLE)
    path = parts.path.rstrip("/").removesuffix(CHAT_PATH)
    return urlunsplit((parts.scheme, parts.netloc, path + CHAT_PATH, "", ""))


class Endpoint:
    """An address and the right to ask it."""

    def __init__(self, url: str, key: ApiKey | None = None, *, silence_s: float = _SILENCE_S) -> None:
        self.url = url
        self._key = key
        self._silence_s = silence_s

    def ask(self, body: Mapping[str, object]) -> bytes:
        """One try: the answer's body, without the key where it should quote it."""
        import httpx2

        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "whitedwarf"}
        if self._key is not None:
            headers |= self._key.headers
        try:
            with (
                httpx2.Client(timeout=self._silence_s, follow_redirects=False) as client,
                client.stream("POST", self.url, json=dict(body), headers=headers) as response,
            ):
                data = self._bounded(response)
        except httpx2.HTTPError as error:
            cause = self._hidden(str(error) or type(error).__name__)
            raise AskAgainError(f"no whole answer from {self._host} ({cause})") from error
        except httpx2.InvalidURL as error:
            raise UsageError(f"--endpoint {self.url}: {error}") from error
        data = self._key.hide_bytes(data) if self._key else data
        if response.status_code != 200:
            raise self._refusal(response.status_code, data, response.headers)
        return data

    @property
    def _host(self) -> str:
        return urlsplit(self.url).netloc

    def _bounded(self, response: "Response") -> bytes:
        until = time.monotonic() + _WHOLE_S
        data = bytearray()
        for piece in response.iter_bytes():
            data += piece
            if len(data) > MOST_BYTES:
                raise EndpointError(
                    f"{self._host} sent more than {MOST_BYTES >> 20} MiB for one answer; expected some kilobytes"
                )
            if time.monotonic() > until:
                raise AskAgainError(f"{self._host} was not done after {_WHOLE_S:.0f} s")
        return bytes(data)

    def _refusal(self, status: int, data: bytes, headers: Mapping[str, str]) -> EndpointError:
        said = self._hidden(complaint(data))
        said = f": {said}" if said else ""
        match status:
            case 401:
                return EndpointError(self._unauthorised(said))
            case 402:
                return EndpointError(f"{self._host}: the account has no balance left (HTTP 402){said}")
            case 403:
                return EndpointError(f"{self._host} does not let this key do that (HTTP 403){said}")
            case 404 | 405:
                return EndpointError(
                    f"{self.url} is no chat completions endpoint (HTTP {status}){said}; check --endpoint and --model"
                )
            case 400 | 413 | 422:
                return RefusedPromptError(f"refused (HTTP {status}){said}")
            case _ if may_pass(status):
                return AskAgainError(f"{self._host} is busy or broken (HTTP {status}){said}", asked_pause_s(headers))
            case _ if 300 <= status < 400:
                where = self._hidden(headers.get("Location", "elsewhere"))[:_SHOWN]
                return EndpointError(
                    f"{self.url} points to {where} (HTTP {status}); give that as --endpoint if it is yours"
                )
            case _:
                return EndpointError(f"{self._host} answered HTTP {status}{said}; expected an answer")

    def _unauthorised(self, said: str) -> str:
        if self._key is None:
            return f"{self._host} wants a key (HTTP 401){said}; set {KEY_VARIABLE}"
        return f"{self._host} refused the key from {KEY_VARIABLE} (HTTP 401){said}; check it, or make a new one"

    def _hidden(self, text: str) -> str:
        return self._key.hide(text) if self._key else text
