"""What `/steer ...` in a chat asks for, beside what is set already."""

import math
from pathlib import Path

from whitedwarf.cli.steering_flags import SteeringWish, steering_wish
from whitedwarf.config import SteeringSettings
from whitedwarf.errors import UsageError
from whitedwarf.model.steering import MAX_SCALE

_FORM = "expected /steer FILE [FFN [ATTN]], /steer FFN [ATTN], or /steer off"


def asked_steering(argument: str, now: SteeringWish | None) -> SteeringWish | None:
    """The steering after the command; UsageError when it says nothing that can be done.

    Numbers alone change how much of the file's directions is taken out; a file's name may have spaces.
    """
    words = argument.split()
    if not words:
        return now
    if words == ["off"]:
        return None
    scales = _numbers_at_end(words)
    name = argument.strip().rsplit(maxsplit=len(scales))[0] if len(words) > len(scales) else ""
    file = _path(name) if name else None if now is None else now.file
    if file is None:
        raise UsageError(f"/steer {argument.strip()}: there is no direction yet; {_FORM}")
    ffn, attention = [*scales, None, None][:2]
    return steering_wish(SteeringSettings(file=file, ffn=ffn, attention=attention), "/steer")


def _path(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # ~name without such a user
        raise UsageError(f"/steer {name}: {error}") from error


def _numbers_at_end(words: list[str]) -> list[float]:
    """At most two, in their order."""
    found: list[float] = []
    for word in reversed(words[-2:]):
        try:
            number = float(word)
        except ValueError:
            break
        if not math.isfinite(number) or abs(number) > MAX_SCALE:
            raise UsageError(f"/steer: {word}: expected a scale from -{MAX_SCALE:g} to {MAX_SCALE:g}")
        found.insert(0, number)
    return found
