"""What the steering flags and `/steer` ask for, and what of it is refused before a model is there."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from whitedwarf.config import SteeringSettings
from whitedwarf.errors import UsageError
from whitedwarf.model.steering_wish import SteeringWish, asked_steering, steering_wish

Call = Callable[[Sequence[str]], tuple[int, str, str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two words.f32"
    path.write_bytes(bytes(4 * 6))
    return path


@pytest.mark.parametrize(
    ("ffn", "attention", "scales"),
    [
        (None, None, (1.0, 0.0)),
        (2.5, None, (2.5, 0.0)),
        (None, -3.0, (0.0, -3.0)),
        (0.0, 1.0, (0.0, 1.0)),
        (0.0, None, None),
        (0.0, 0.0, None),
    ],
)
def test_a_file_alone_steers_feed_forward_layers_and_two_zeros_steer_nothing(
    ffn: float | None, attention: float | None, scales: tuple[float, float] | None, file: Path
) -> None:
    wish = steering_wish(SteeringSettings(file=file, ffn=ffn, attention=attention))
    assert wish == (None if scales is None else SteeringWish(file, *scales))


def test_a_file_that_is_not_used_is_not_looked_at() -> None:
    assert steering_wish(SteeringSettings(file=Path("/none"), ffn=0.0)) is None


def test_what_is_no_file_of_directions_is_refused(file: Path, tmp_path: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"x")
    for path in (file, tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match=f"--dir-steering-file {path}: expected"):
            steering_wish(SteeringSettings(file=path))
    os.truncate(file, 0)
    with pytest.raises(UsageError, match="0 bytes"):
        steering_wish(SteeringSettings(file=file))


def test_no_direction_is_nothing_to_steer() -> None:
    assert steering_wish(SteeringSettings()) is None
    assert steering_wish(SteeringSettings(ffn=0.0)) is None
    with pytest.raises(UsageError, match="give --dir-steering-file"):
        steering_wish(SteeringSettings(attention=1.0))


@pytest.mark.parametrize(
    ("argument", "scales"),
    [
        ("{}", (1.0, 0.0)),
        ("{} -2", (-2.0, 0.0)),
        (" {}  0.5 1e0 ", (0.5, 1.0)),
        ("3", (3.0, 0.0)),
        ("0 -100", (0.0, -100.0)),
        ("", (7.0, 8.0)),
        ("off", None),
        ("0", None),
    ],
)
def test_a_chat_changes_the_file_or_only_how_much(
    argument: str, scales: tuple[float, float] | None, file: Path
) -> None:
    wish = asked_steering(argument.format(file), SteeringWish(file, 7.0, 8.0))
    assert wish == (None if scales is None else SteeringWish(file, *scales))


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("2", "there is no direction yet"),
        ("a.f32 101", "-100 to 100"),
        ("nan", "scale"),
        ("a.f32", "there is none"),
        ("~nobody-of-that-name/a.f32 1", "home"),
        ("a\0b", "expected a readable file"),
    ],
)
def test_a_chat_is_told_what_cannot_be_done(argument: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        asked_steering(argument, None)


def test_directions_of_another_model_are_refused_with_its_size(tmp_path: Path, in_process: Call) -> None:
    np.ones((43, 4096), "<f4").tofile(tmp_path / "flash.f32")
    code, _, said = in_process(["run", "-p", "hello", "--steering", str(tmp_path / "flash.f32")])
    assert code == 1
    assert "704512 bytes; expected 6144, f32 numbers for 6 layers of 256" in said
