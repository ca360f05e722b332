"""Reading one part of a body so that its errors say where it stands."""

from typing import Any

from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import Reader


def located(path: str, read: Reader, value: Any) -> Any:
    """`read(value)`, its MalformedRequest with the path in front."""
    try:
        return read(value)
    except MalformedRequest as error:
        raise MalformedRequest(f"{path}: {error}") from error
