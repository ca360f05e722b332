"""How large the model sees an image of given width and height, and how many tokens it takes (spec/recipe.md 11).

The picture is cut into patches of 14 pixels, and 3×3 patches make a token; each row of tokens ends with one more, and
two frame the whole. Small pictures are enlarged, large ones shrunk. Promises: what the official library counts, for any
size; no loop that depends on the size. Does not read images.
"""

import math
from dataclasses import dataclass

PATCH = 14
LONGEST_SIDE = 16_380
_CELL = 3 * PATCH
_MOST_TOKENS = 1024
_FRAME_TOKENS = 2
_CONTENT_TOKENS = _MOST_TOKENS - _FRAME_TOKENS
_LEAST_PIXELS = 544 * 544


@dataclass(frozen=True, slots=True)
class FittedSize:
    """What an image becomes: both sides multiples of a patch."""

    width: int
    height: int


def token_count(width: int, height: int) -> int:
    """How many tokens an image of `width` × `height` pixels takes; ValueError unless both are positive."""
    width, height = _seen(width, height)
    return _tokens(width, height)


def fitted_size(width: int, height: int) -> FittedSize:
    """The size at which the model gets it; ValueError unless both are positive.

    No side is longer than LONGEST_SIDE, as the official library hands images on as WebP files, which end there: such a
    sliver takes fewer tokens than `token_count` says of the original.
    """
    width, height = map(_rounded_up, _seen(width, height))
    if max(width, height) > LONGEST_SIDE:
        least = _rounded_up(-(-_LEAST_PIXELS // LONGEST_SIDE))
        width, height = (min(max(side, least), LONGEST_SIDE) for side in (width, height))
    return FittedSize(width, height)


def _seen(width: int, height: int) -> tuple[int, int]:
    if width < 1 or height < 1:
        raise ValueError(f"an image of {width}×{height} pixels has no size; expected at least 1×1")
    if _tokens(width, height) <= _MOST_TOKENS and width * height < _LEAST_PIXELS:
        width, height = _enlarged(width, height)
    if _tokens(width, height) <= _MOST_TOKENS:
        return width, height
    width, height = _shrunk(width, height)
    if _rounded_up(width) * _rounded_up(height) < _LEAST_PIXELS:  # a patch lost by rounding, of very few
        width, height = _enlarged(width, height)
    return width, height


def _tokens(width: int, height: int) -> int:
    return -(-height // _CELL) * (-(-width // _CELL) + 1) + _FRAME_TOKENS


def _rounded_up(side: int) -> int:
    return -(-side // PATCH) * PATCH


def _enlarged(width: int, height: int) -> tuple[int, int]:
    while True:  # cutting off fractions may leave too few pixels, for a few rounds
        scale = math.sqrt(_LEAST_PIXELS / (width * height))
        grown = math.floor(width * scale), math.floor(height * scale)
        if grown == (width, height) or _rounded_up(grown[0]) * _rounded_up(grown[1]) >= _LEAST_PIXELS:
            return grown
        width, height = grown


def _shrunk(width: int, height: int) -> tuple[int, int]:
    """The largest grid of whole tokens of about this shape; a sliver becomes one row or column of tokens."""
    steepness = height / width  # in this order of steps, as whole numbers of rows are met exactly or just missed
    columns = (math.sqrt(1 + 4 * _CONTENT_TOKENS / steepness) - 1) / 2
    rows = columns * steepness
    if rows < 1:
        return _CELL * (_CONTENT_TOKENS - 1), PATCH
    if columns < 1:
        return _CELL, _CELL * (_CONTENT_TOKENS // 2)
    scale = min(_CELL * math.floor(columns) / width, _CELL * math.floor(rows) / height)
    return math.floor(width * scale / PATCH) * PATCH, math.floor(height * scale / PATCH) * PATCH
