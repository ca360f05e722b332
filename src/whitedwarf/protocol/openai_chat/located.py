"""Reading one part of a body so that its errors say where it stands, and say it in a few words."""

from typing import Any

from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import Reader

_LONGEST_MESSAGE = 300  # characters; what came may be much longer


def located(path: str, read: Reader, value: Any) -> Any:
    """`read(value)`, its MalformedRequest with the path in front."""
    try:
        return read(value)
    except MalformedRequest as error:
        message = str(error)
        shown = message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + "…"
        raise MalformedRequest(f"{path}: {shown}") from error
