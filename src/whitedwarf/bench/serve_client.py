"""A client of any server that speaks Chat Completions, Messages or Responses, on a plain socket.

Promises: while an answer comes in nothing is done but note each piece and its moment; it is read afterwards, so that
the client costs the server as little as it can. Does not know what is measured.
"""

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from whitedwarf.conversation.json_value import Json
from whitedwarf.errors import WhitedwarfError

PATIENCE_S = 3600.0  # a long prompt of a large model on a slow machine
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Streamed:
    """One streamed answer. Moments are of perf_counter; `token_times_s` has one for each piece of text.

    Of an answer without any, as random weights give, it has the moment of the end.
    """

    sent_s: float
    token_times_s: tuple[float, ...]
    text: str
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int

    @property
    def first_token_s(self) -> float:
        """Seconds from sending the request to the first piece of text."""
        return self.token_times_s[0] - self.sent_s

    @property
    def whole_s(self) -> float:
        """Seconds from sending the request to the last piece of text."""
        return self.token_times_s[-1] - self.sent_s


def chat_body(messages: list[Json], max_tokens: int, temperature: float = 1.0) -> dict[str, Json]:
    """A streamed Chat Completions request without thinking; a peer ignores what it does not know."""
    return {
        "model": "bench",
        "messages": messages,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        "thinking": {"type": "disabled"},
    }


def user(text: str) -> Json:
    """A message of the user."""
    return {"role": "user", "content": text}


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer that has come and was not read yet."""

    sent_s: float
    pieces: tuple[tuple[float, bytes], ...]

    def read(self) -> Streamed:
        """WhitedwarfError where it is no whole answer."""
        return _read(self.sent_s, self.pieces)


def streamed(address: Address, path: str, body: Mapping[str, Json]) -> Streamed:
    """Ask and wait for the end; WhitedwarfError where no whole answer comes."""
    return heard(address, path, body).read()


def heard(address: Address, path: str, body: Mapping[str, Json]) -> Heard:
    """Ask and wait for the end."""
    content = json.dumps(body).encode()
    with socket.create_connection((address.host, address.port), timeout=PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent_s = perf_counter()
        connection.sendall(_head(address, path, len(content)) + content)
        pieces = []
        while piece := connection.recv(1 << 18):
            pieces.append((perf_counter(), piece))
    return Heard(sent_s, tuple(pieces))


def _head(address: Address, path: str, length: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nhost: {address.host}:{address.port}\r\ncontent-type: application/json\r\n"
        f"content-length: {length}\r\nconnection: close\r\n\r\n"
    ).encode()


def _check(head: bytes) -> None:
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise WhitedwarfError(f"the server refused to answer: {head[:300].decode(errors='replace')}")


def _read(sent_s: float, pieces: Sequence[tuple[float, bytes]]) -> Streamed:
    _check(pieces[0][1] if pieces else b"no answer")
    tokens: list[tuple[float, str]] = []
    usage: dict[str, Any] = {}
    end_s, rest = 0.0, b""
    for moment_s, piece in pieces:
        # Chunked framing stands on lines of its own between events and is no `data:`.
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                if found := _usage(event):
                    usage, end_s = found, moment_s
                tokens += [(moment_s, text)] if (text := _text(event)) else []
    if not end_s:
        raise WhitedwarfError(f"the answer did not end with its usage: {pieces[-1][1][-300:].decode(errors='replace')}")
    return Streamed(
        sent_s=sent_s,
        token_times_s=tuple(moment_s for moment_s, _ in tokens) or (end_s,),
        text="".join(text for _, text in tokens),
        prompt_tokens=_prompt_tokens(usage),
        cached_tokens=_cached_tokens(usage),
        generated_tokens=usage.get("completion_tokens") or usage.get("output_tokens") or len(tokens),
    )


def _text(event: dict[str, Any]) -> str:
    """What this event adds to the answer, in whichever dialect."""
    if choices := event.get("choices"):
        delta = choices[0].get("delta") or {}
        return str(delta.get("content") or delta.get("reasoning_content") or "")
    delta = event.get("delta")
    if isinstance(delta, dict):
        return str(delta.get("text") or delta.get("thinking") or "")
    return delta if isinstance(delta, str) else ""


def _usage(event: dict[str, Any]) -> dict[str, Any] | None:
    usage = event.get("usage") or (event.get("response") or {}).get("usage")
    return usage if isinstance(usage, dict) else None


def _prompt_tokens(usage: dict[str, Any]) -> int:
    if "prompt_tokens" in usage:
        return int(usage["prompt_tokens"])
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(int(usage.get(name) or 0) for name in names)


def _cached_tokens(usage: dict[str, Any]) -> int:
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    return int(details.get("cached_tokens") or usage.get("cache_read_input_tokens") or 0)
