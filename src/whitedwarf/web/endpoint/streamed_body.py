"""The body of a chat completion as it comes, bounded: events of a stream, or one JSON document."""

from typing import Protocol

import httpx2

from whitedwarf.errors import EndpointError
from whitedwarf.web.endpoint.event_lines import EventLines

TIMEOUT = httpx2.Timeout(30.0, read=900.0, write=60.0)  # a long prompt may be read without a sign of life
_LONGEST_TOLD = 1 << 22  # bytes of an error
_LONGEST_ANSWER = 1 << 28  # bytes of one stream; a million tokens with their JSON stay below


class BodyReader(Protocol):
    """Reads the data of each event; what its methods raise comes out of `read_body`."""

    def take(self, data: str) -> None: ...

    def finish(self) -> None: ...


async def read_body(response: httpx2.Response, reader: BodyReader) -> None:
    """The answer as it comes, or as a whole from a server that does not stream; EndpointError for one without end."""
    is_stream = "event-stream" in response.headers.get("content-type", "")
    lines, whole, num_bytes = EventLines(), bytearray(), 0
    async for data in response.aiter_bytes():
        num_bytes += len(data)
        if num_bytes > _LONGEST_ANSWER:
            raise EndpointError(f"the server's answer does not end: more than {_LONGEST_ANSWER} bytes came")
        if not is_stream:
            whole += data
            continue
        for event in lines.feed(data):
            reader.take(event)
    if not is_stream:
        reader.take(whole.decode("utf-8", "replace"))
    reader.finish()


async def beginning(response: httpx2.Response) -> bytes:
    """As much of a body as an error takes."""
    body = bytearray()
    async for data in response.aiter_bytes():
        body += data
        if len(body) > _LONGEST_TOLD:
            break
    return bytes(body)


def told(error: Exception) -> str:
    """What a failed connection says of itself, in a line."""
    return " ".join(str(error).split()) or type(error).__name__
