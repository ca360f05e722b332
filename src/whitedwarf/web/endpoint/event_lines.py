"""Bytes of a stream to the data of its server-sent events; a stream's own errors. Pure."""

from collections.abc import Iterator

from whitedwarf.errors import WhitedwarfError

LONGEST_LINE = 16 << 20  # bytes; a server that sends more in one event is none
_DONE = "[DONE]"


class StreamError(WhitedwarfError):
    """The server told of an error inside its answer, or sent what is none. `may_help`: asking again may."""

    def __init__(self, text: str, *, may_help: bool) -> None:
        super().__init__(text)
        self.may_help = may_help


class EventLines:
    """Bytes as they come, to the data of server-sent events. Only line ends of the protocol divide lines: a text in
    JSON may hold others, such as U+2028."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """The data of each event line that is complete now, without the final [DONE]."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            raise StreamError(f"the server sent a line of more than {LONGEST_LINE} bytes", may_help=False)
        for line in lines:
            name, _, value = line.rstrip(b"\r").partition(b":")
            if name == b"data" and (text := value.decode("utf-8", "replace").strip()) != _DONE and text:
                yield text
