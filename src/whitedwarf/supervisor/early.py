"""The way to one client, which may begin before there is an answer: headers and comments while a stream waits.

Clients give up when no headers come for some minutes, and a cold start with a long prompt takes longer
(spec/supervisor.md 0.6, 2.27). Once headers have gone out a status can be told no more: failures become error events in
the dialect of the address. Promises: nothing is put between the bytes of an answer that has begun.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable

from whitedwarf.supervisor.answers import json_bytes
from whitedwarf.supervisor.asgi import Send, send_answer, send_end, send_head, send_piece
from whitedwarf.supervisor.upstream import Answer, Headers

COMMENT_EVERY_S = 15.0
LOOK_EVERY_S = 1.0

SSE_HEADERS: Headers = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class Outlet:
    """What has been told to a client. `status`: the answer's own, also where it could not be sent; 0 before it.

    `write` does at once what `piece` does, where the server has that and nothing has to be waited for.
    """

    def __init__(self, send: Send, path: str, write: Callable[[bytes], bool] | None = None) -> None:
        self.write = write
        self.status = 0
        self.is_early = False
        self._send = send
        self._path = path

    @property
    def has_begun(self) -> bool:
        """Whether a byte of the answer has gone out; early headers are none."""
        return self.status != 0

    async def open_early(self) -> None:
        """Send headers before there is an answer."""
        self.is_early = True
        await send_head(self._send, 200, SSE_HEADERS)

    async def note(self, event: bytes) -> None:
        """A comment or an event of ours, before the answer."""
        if not self.has_begun:
            await send_piece(self._send, event)

    async def begin(self, status: int, headers: Headers) -> None:
        """The head of an answer."""
        self.status = status
        if not self.is_early:
            await send_head(self._send, status, headers)

    async def piece(self, piece: bytes) -> None:
        """Some of its body."""
        await send_piece(self._send, piece)

    async def end(self) -> None:
        """It is whole."""
        await send_end(self._send)

    async def give(self, answer: Answer) -> None:
        """A short answer; where headers have gone out, an event that says the same."""
        self.status = answer.status
        if self.is_early:
            await send_end(self._send, event_of(answer, self._path))
        else:
            await send_answer(self._send, answer)


def event_of(answer: Answer, path: str) -> bytes:
    """What an answer's body says, as an event of the dialect that is spoken there."""
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        value = None
    error = value.get("error") if isinstance(value, dict) else None
    if answer.status < 400 or not isinstance(error, dict):
        text = answer.body.decode("utf-8", "replace")
        return _event(b"", answer.body if value is not None else json_bytes({"error": {"message": text}}))
    if path.endswith("/messages"):
        return _event(b"error", json_bytes({"type": "error", "error": _told(error, answer.status)}))
    if path.endswith("/responses"):
        told = _told(error, answer.status)
        said = {"type": "error", "code": told.get("code"), "message": told.get("message"), "param": None}
        return _event(b"error", json_bytes(said))
    if answer.status < 500:
        return _event(b"", answer.body)  # as it came: clients know overflows by the text
    return _event(b"", json_bytes({**value, "error": _told(error, answer.status)}))


def _told(error: dict[str, object], status: int) -> dict[str, object]:
    """With the status in the text where it is the supervisor's or the server's fault: clients ask again by that."""
    if status < 500:
        return error
    return {**error, "message": f"{status}: {error.get('message')}"}


def _event(name: bytes, data: bytes) -> bytes:
    lines = b"".join(b"data: " + line + b"\n" for line in data.splitlines())
    return (b"event: " + name + b"\n" if name else b"") + lines + b"\n"


async def keep_awake(
    outlet: Outlet,
    after_s: float,
    wants_stream: Callable[[], Awaitable[bool]],
    progress: Callable[[], str] | None = None,
) -> None:
    """From `after_s` on, until the answer begins: headers, comments, and with `progress` lines that people see."""
    if after_s <= 0:
        return
    await asyncio.sleep(after_s)
    if outlet.has_begun or not await wants_stream() or outlet.has_begun:
        return
    await outlet.open_early()
    await outlet.note(b":\n\n")
    told, silent_s = "", 0.0
    while not outlet.has_begun:
        said = progress() if progress is not None else ""
        if said != told:
            told, silent_s = said, 0.0
            await outlet.note(thought(said))
        elif silent_s >= COMMENT_EVERY_S:
            silent_s = 0.0
            await outlet.note(b":\n\n")
        await asyncio.sleep(LOOK_EVERY_S)
        silent_s += LOOK_EVERY_S


def thought(text: str) -> bytes:
    """A line among the model's thoughts, where clients show it and leave it out of what they send back."""
    delta = {"role": "assistant", "reasoning_content": f"{text}\n"}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    chunk = {"id": "loading", "object": "chat.completion.chunk", "created": 0, "model": "", "choices": [choice]}
    return _event(b"", json_bytes(chunk))
