"""From the steering flags to a steering: what contradicts, or is no file of directions, is told before a model loads.

With a file alone its direction is taken out after feed-forward layers; with both scales 0 there is no steering, and the
file is not even looked at.
"""

from dataclasses import dataclass
from pathlib import Path

from whitedwarf.cli.loading import LoadedModel, note
from whitedwarf.config import SteeringSettings
from whitedwarf.conversation.json_value import Json
from whitedwarf.errors import UsageError
from whitedwarf.model.steering import Directions, Steering, check_size, read_directions, uneven_layers

FLAG = "--dir-steering-file"
_NUMBER_BYTES = 4  # a direction's numbers are f32


@dataclass(frozen=True, slots=True)
class SteeringWish:
    """What the flags ask for; the model has not been asked yet whether the directions are of its size."""

    file: Path
    ffn: float
    attention: float

    def __str__(self) -> str:
        return f"{self.file}, ffn {self.ffn:g}, attention {self.attention:g}"

    def steering(self, loaded: LoadedModel) -> Steering:
        """FileFormatError when the file is of another model."""
        directions = open_directions(self.file, loaded)
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


def steered(loaded: LoadedModel, wish: SteeringWish | None) -> LoadedModel:
    """The model under the steering that was asked for; a line on stderr says so."""
    if wish is None:
        return loaded
    result = loaded.steered(wish.steering(loaded))
    note(f"steering: {wish}")
    return result


def steering_facts(wish: SteeringWish, loaded: LoadedModel) -> Json:
    """What a server tells about it."""
    steering = loaded.transformer.steering
    assert steering is not None
    return {"file": wish.file.name, "ffn": wish.ffn, "attention": wish.attention, "digest": steering.digest}


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


def open_directions(path: Path, loaded: LoadedModel) -> Directions:
    """The file's directions, one for each layer of the model."""
    hp = loaded.transformer.config.hp
    size = len(hp.compress_ratios), hp.hidden_size
    try:
        check_size(path.stat().st_size, *size, str(path))  # before a file of any size is read
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    return read_directions(data, *size, str(path))
