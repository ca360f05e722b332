"""Data URLs, read as browsers do (the WHATWG standards URL, Fetch and Infra): so does the official library.

Promises: time and memory grow with the URL's length and no faster, whatever it holds. Does not know images.
"""

import binascii
import re
from dataclasses import dataclass

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_LAST_DIGITS = (_ALPHABET, _ALPHABET[::4], _ALPHABET[::16])  # that leave no bits over, by padding
_AROUND_URL = "".join(map(chr, range(0x21)))
_LINE_CHARACTERS = str.maketrans("", "", "\t\n\r")
_WHITE_SPACE = b"\t\n\f\r "
_BASE64_SUFFIX = re.compile(r";[ \t\n\r]*[bB][\t\n\r]*[aA][\t\n\r]*[sS][\t\n\r]*[eE][\t\n\r]*6[\t\n\r]*4\Z")
_ESCAPE_OR_LINE_CHARACTER = re.compile(rb"%([0-9A-Fa-f]{2})|[\t\n\r]")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class DataUrl:
    """A data URL taken apart: its media type (lower case, without parameters) and its body, still encoded."""

    media_type: str
    is_base64: bool
    body: str

    @classmethod
    def parsed(cls, url: str) -> "DataUrl | None":
        """The parts of `url`; None where it is no data URL."""
        scheme, _, rest = url.strip(_AROUND_URL).partition(":")
        if scheme.translate(_LINE_CHARACTERS).lower() != "data":
            return None
        header, comma, body = rest.partition("#")[0].partition(",")
        if not comma:
            return None
        header = header.strip(" \t\n\r")
        suffix = _BASE64_SUFFIX.search(header)
        media_type = (header[: suffix.start()] if suffix else header).partition(";")[0]
        return cls(media_type.translate(_LINE_CHARACTERS).strip(" ").lower(), suffix is not None, body)

    def decoded(self) -> bytes | None:
        """What it holds; None where it says base64 and is not."""
        octets = _percent_decoded(self.body.encode("utf-8", "surrogatepass"))
        return forgiving_base64(octets) if self.is_base64 else octets


def forgiving_base64(octets: bytes) -> bytes | None:
    """Decoded as browsers do: white space and left-over bits ignored, padding whole or absent; None if it is none."""
    octets = octets.translate(None, _WHITE_SPACE)
    if len(octets) % 4 == 0:
        octets = _without_padding(octets)
    if len(octets) % 4 == 1 or octets.translate(None, _ALPHABET):
        return None
    return binascii.a2b_base64(octets + b"=" * (-len(octets) % 4))


def canonical_base64(text: str) -> str | None:
    """Base64 with its padding set right; None where that is missing, bits are left over, or it is no base64."""
    octets = text.encode("utf-8", "surrogatepass")
    digits = octets.rstrip(b"=")
    lacking = -len(digits) % 4
    if lacking == 3 or digits.translate(None, _ALPHABET) or (lacking and digits == octets):
        return None
    if digits and digits[-1] not in _LAST_DIGITS[lacking]:
        return None
    return text[: len(digits)] + "=" * lacking


def _without_padding(octets: bytes) -> bytes:
    return octets[:-2] + octets[-2:].rstrip(b"=") if octets.endswith(b"=") else octets


def _percent_decoded(octets: bytes) -> bytes:
    """In blocks, as a substitution holds every piece of its text at once."""
    if b"%" not in octets:
        return octets.translate(None, b"\t\n\r")
    decoded, start = bytearray(), 0
    while start < len(octets):
        end = start + _BLOCK
        if b"%" in octets[end - 2 : end]:  # perhaps in the middle of an escape
            end = octets.index(b"%", end - 2)
        decoded += _ESCAPE_OR_LINE_CHARACTER.sub(_octet, octets[start:end])
        start = end
    return bytes(decoded)


def _octet(found: re.Match[bytes]) -> bytes:
    return binascii.a2b_hex(found[1]) if found[1] else b""
