"""The bytes of a file as text: its lines, its line ends, and bytes that are no UTF-8, shown but never lost."""

from dataclasses import dataclass
from functools import cached_property

from whitedwarf.agent.tool import ToolError


def has_crlf_ends(data: bytes) -> bool:
    """Whether every line ends with CR LF."""
    ends = data.count(b"\r\n")
    return ends > 0 and ends == data.count(b"\n")


def has_mixed_ends(data: bytes) -> bool:
    """Whether some lines end with CR LF and others with LF."""
    return 0 < data.count(b"\r\n") < data.count(b"\n")


def to_lf(data: bytes) -> bytes:
    """CR LF becomes LF; `to_crlf` gives the same bytes back where `has_crlf_ends`."""
    return data.replace(b"\r\n", b"\n")


def to_crlf(data: bytes) -> bytes:
    """Every LF becomes CR LF."""
    return data.replace(b"\n", b"\r\n")


def decode(data: bytes) -> str:
    """UTF-8; each byte that is none as `\\xff`."""
    return data.decode("utf-8", "backslashreplace")


def encode(text: str, name: str) -> bytes:
    """A parameter as UTF-8; ToolError for half of a surrogate pair, which JSON can hold and files cannot."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"{name} holds half of a surrogate pair at character {error.start + 1}") from error


@dataclass(frozen=True)
class TextLines:
    """A file's text. Lines end at LF alone; a last one without it counts, too."""

    data: bytes

    @cached_property
    def lines(self) -> list[str]:
        """Each with its line end; CR LF stays as it is."""
        pieces = decode(self.data).split("\n")
        return [piece + "\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])

    @cached_property
    def invalid_bytes(self) -> int:
        """How many bytes are no UTF-8."""
        try:
            self.data.decode()
        except UnicodeDecodeError:
            return sum("\udc80" <= char <= "\udcff" for char in self.data.decode("utf-8", "surrogateescape"))
        return 0

    @property
    def notes(self) -> list[str]:
        """What a reader has to know that the lines do not show."""
        notes = []
        if has_crlf_ends(self.data):
            notes.append("lines end with CR LF")
        elif has_mixed_ends(self.data):
            notes.append("some lines end with CR LF and some with LF")
        if self.invalid_bytes:
            notes.append(f"{self.invalid_bytes} bytes are no UTF-8 and shown as \\xNN")
        return notes
