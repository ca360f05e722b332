"""Asking a supervisor that runs: it is found by the ports of its config, whichever of them answers.

Promises: a stranger on one of our ports is not taken for it, nor is a supervisor of another config. WhitedwarfError
where nobody answers or an order is refused, in the words of whoever refused.
"""

import asyncio
import json
import os
from codecs import getincrementaldecoder
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from whitedwarf.errors import WhitedwarfError
from whitedwarf.supervisor.checks import key_texts
from whitedwarf.supervisor.config import SupervisorConfig
from whitedwarf.supervisor.failures import UpstreamError
from whitedwarf.supervisor.routes import reachable
from whitedwarf.supervisor.upstream import Address, Answer, ask, begin

_MOST_SAID = 4000
PREFIX = "/__supervisor/"
_STATUS_TIMEOUT_S = 5.0
_ASKED_AT_ONCE = 64
_ORDER_TIMEOUT_S = 24 * 3600.0  # a drain waits for the longest answer there is


class Supervisor:
    """One that answered, at this address."""

    def __init__(self, config: SupervisorConfig, address: Address, status: dict[str, Any]) -> None:
        self._config, self._address = config, address
        self.status = status

    @classmethod
    async def find(cls, config: SupervisorConfig) -> "Supervisor":
        """The one that runs this config."""
        strangers = []
        addresses = [Address(reachable(config.host).strip("[]"), model.public_port) for model in config.models]
        # The first answers as a rule; where it does not, all may hang, and each for seconds.
        for some in (addresses[:1], *_some(addresses[1:], _ASKED_AT_ONCE)):
            answers = await asyncio.gather(*(_status_at(address, config) for address in some))
            for address, answer in zip(some, answers, strict=True):
                if answer is None:
                    continue
                status = _object(answer)
                if answer.status == 200 and _is_same(status.get("config"), config.source):
                    return cls(config, address, status)
                strangers.append(f"port {address.port} is held by {_stranger(answer, status)}")
        ports = ", ".join(str(model.public_port) for model in config.models)
        found = f" ({'; '.join(strangers)})" if strangers else ""
        raise WhitedwarfError(
            f"no supervisor of {config.source} answers on port {ports}{found}; start it: whitedwarf supervise "
            f"{config.source}"
        )

    async def order(self, what: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        """Carry out `unload` or `start`; the answer comes when it has been done."""
        query = f"?{urlencode(parameters, quote_via=quote, safe='')}" if parameters else ""
        answer = await ask(
            self._address, "POST", f"{PREFIX}{what}{query}", _headers(self._config), timeout_s=_ORDER_TIMEOUT_S
        )
        told = _object(answer)
        if answer.status != 200:
            raise WhitedwarfError(_refusal(answer, told))
        return told

    async def read(self, what: str, parameters: Mapping[str, str]) -> AsyncIterator[str]:
        """A text as it comes, such as `logs`."""
        target = _target(what, parameters)
        async with await begin(self._address, "GET", target, _headers(self._config)) as exchange:
            decoder = getincrementaldecoder("utf-8")("replace")
            if exchange.status != 200:
                body = b"".join([piece async for piece in exchange.pieces()])
                answer = Answer(exchange.status, exchange.headers, body)
                raise WhitedwarfError(_refusal(answer, _object(answer)))
            async for piece in exchange.pieces():
                yield decoder.decode(piece)


def _some(addresses: Sequence[Address], most: int) -> list[Sequence[Address]]:
    """All of them, so many at a time."""
    return [addresses[start : start + most] for start in range(0, len(addresses), most)]


async def _status_at(address: Address, config: SupervisorConfig) -> Answer | None:
    try:
        return await ask(address, "GET", f"{PREFIX}status", _headers(config), timeout_s=_STATUS_TIMEOUT_S)
    except UpstreamError:
        return None


def _target(what: str, parameters: Mapping[str, str]) -> str:
    query = urlencode(parameters, quote_via=quote, safe="")
    return f"{PREFIX}{what}?{query}" if query else f"{PREFIX}{what}"


def _headers(config: SupervisorConfig) -> list[tuple[bytes, bytes]]:
    keys = key_texts(config)
    return [(b"Authorization", f"Bearer {keys[0]}".encode())] if keys else []


def _object(answer: Answer) -> dict[str, Any]:
    try:
        told = json.loads(answer.body)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _is_same(told: object, source: Path) -> bool:
    if not isinstance(told, str):
        return False
    if told.encode("utf-8", "surrogateescape") == os.fsencode(source):  # it speaks UTF-8 in every locale
        return True
    try:
        return Path(told).samefile(source)
    except (OSError, ValueError):  # the latter for a name that this locale has not
        return False


def _stranger(answer: Answer, status: dict[str, Any]) -> str:
    if isinstance(status.get("config"), str):
        return f"the supervisor of {_readable(status['config'])}"
    if answer.status == 401:
        return "one that refuses our key"
    return "another server"


def _readable(text: str) -> str:
    """For a terminal, which obeys control characters; whoever has the port may have said it."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in text[:_MOST_SAID])


def _refusal(answer: Answer, told: dict[str, Any]) -> str:
    error = told.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    if not message:
        return f"the supervisor answered {answer.status}"
    said, _, log = str(message).partition("\n")
    said = _readable(said)
    return f"{said} (`whitedwarf supervise logs` has more)" if log else said
