"""What is asked of a steering before a model has been asked whether the directions are of its size: flags, `/steer`.

With a file alone its direction is taken out after feed-forward layers; with both scales 0 there is no steering, and the
file is not even looked at.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.config import SteeringSettings
from whitedwarf.errors import UsageError
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.steering import MAX_SCALE, Directions, Steering, check_size, read_directions, uneven_layers

FLAG = "--dir-steering-file"
_NUMBER_BYTES = 4  # a direction's numbers are f32
_FORM = "expected /steer FILE [FFN [ATTN]], /steer FFN [ATTN], or /steer off"


@dataclass(frozen=True, slots=True)
class SteeringWish:
    """A file of directions and how much of them is to be taken out."""

    file: Path
    ffn: float
    attention: float

    def __str__(self) -> str:
        return f"{self.file}, ffn {self.ffn:g}, attention {self.attention:g}"

    def steering(self, config: ModelConfig, note: Callable[[str], object]) -> Steering:
        """FileFormatError when the file is of another model; `note` is told what the user should know."""
        directions = open_directions(self.file, config)
        for layer in uneven_layers(directions)[:1]:
            note(
                f"{self.file}: directions are not of length 1 (layer {layer} is the first): scales mean something else"
            )
        return Steering(directions, self.ffn, self.attention)


def steering_wish(settings: SteeringSettings, flag: str = FLAG) -> SteeringWish | None:
    """None where nothing is to be steered; UsageError where that makes no sense."""
    scales = (settings.ffn or 0.0, settings.attention or 0.0)
    if settings.file is None:
        if any(scales):
            raise UsageError("--dir-steering-ffn and --dir-steering-attn need a direction: give --dir-steering-file")
        return None
    if (settings.ffn, settings.attention) == (None, None):
        scales = (1.0, 0.0)
    if not any(scales):
        return None
    check_directions(settings.file, flag)
    return SteeringWish(settings.file, *scales)


def asked_steering(argument: str, now: SteeringWish | None) -> SteeringWish | None:
    """The steering after `/steer ...`, beside what is set already; UsageError when it says nothing that can be done.

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


def check_directions(path: Path, flag: str = FLAG) -> None:
    """UsageError unless there may be directions in the file: the size of those of any model."""
    try:
        size_bytes = path.stat().st_size if path.is_file() else -1
    except (OSError, ValueError) as error:
        raise UsageError(f"{flag} {path}: expected a readable file; {error}") from error
    if size_bytes < 0:
        raise UsageError(f"{flag} {path}: expected a readable file; there is none")
    if size_bytes == 0 or size_bytes % _NUMBER_BYTES:
        raise UsageError(f"{flag} {path}: expected f32 numbers, got {size_bytes} bytes")


def open_directions(path: Path, config: ModelConfig) -> Directions:
    """The file's directions, one for each layer of the model."""
    size = len(config.hp.compress_ratios), config.hp.hidden_size
    try:
        check_size(path.stat().st_size, *size, str(path))  # before a file of any size is read
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    return read_directions(data, *size, str(path))


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
