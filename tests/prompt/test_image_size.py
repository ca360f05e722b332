import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whitedwarf.prompt.image_size import LONGEST_SIDE, PATCH, FittedSize, fitted_size, token_count

VECTORS = Path(__file__).parents[1] / "golden" / "recipe" / "image_tokens.jsonl"
SIDES = st.one_of(st.integers(1, 700), st.integers(1, 8192), st.integers(1, 2**32 - 1))


def test_every_official_size_takes_the_official_tokens() -> None:
    rows = [row for line in VECTORS.read_text().splitlines() for row in json.loads(line)["rows"]]
    assert len(rows) == 150
    assert [(w, h, token_count(w, h)) for w, h, _ in rows] == [tuple(row) for row in rows]


@pytest.mark.parametrize(
    ("size", "tokens"),
    [
        ((1, 1), 184),
        ((544, 544), 184),
        ((8000, 8000), 994),
        ((1, 8000), 1024),
        ((8000, 1), 1024),
        ((1, 2**32 - 1), 1024),
        ((10**9, 10**9), 994),
        ((79, 15846), 452),  # rounding loses one patch of three, and what is left is enlarged again
        ((165, 34581), 462),
        ((1410, 1750), 988),  # 35 rows, were numbers exact
    ],
)
def test_extreme_sizes_take_the_official_tokens(size: tuple[int, int], tokens: int) -> None:
    assert token_count(*size) == tokens


@pytest.mark.parametrize(
    ("size", "fitted"),
    [
        ((1, 1), (546, 546)),
        ((600, 400), (672, 448)),
        ((1500, 1000), (1512, 1008)),
        ((3000, 2000), (1568, 1050)),
        ((8000, 8000), (1302, 1302)),
        ((1200, 40), (2982, 112)),
        ((8000, 1), (16380, 28)),
        ((1, 8000), (42, 16380)),
        ((3151, 2), (16380, 28)),
        ((5, 5119), (28, 16380)),
    ],
)
def test_sizes_become_the_official_ones(size: tuple[int, int], fitted: tuple[int, int]) -> None:
    assert fitted_size(*size) == FittedSize(*fitted)


@given(SIDES, SIDES)
@example(131, 235)
def test_what_is_fitted_is_whole_patches_takes_the_same_tokens_and_fits(width: int, height: int) -> None:
    fitted = fitted_size(width, height)
    assert fitted.width % PATCH == fitted.height % PATCH == 0
    assert max(fitted.width, fitted.height) <= LONGEST_SIDE
    assert min(fitted.width, fitted.height) >= 28
    assert fitted.width * fitted.height <= 1024 * 42 * 42
    assert (fitted.width + 1) * (fitted.height + 1) > 544 * 544  # enlarging cuts off less than a pixel
    tokens = token_count(width, height)
    assert tokens <= 1024
    if max(fitted.width, fitted.height) < LONGEST_SIDE:
        assert token_count(fitted.width, fitted.height) == tokens
    assert fitted_size(fitted.width, fitted.height) == fitted


@pytest.mark.parametrize("size", [(0, 5), (5, 0), (0, 0), (-1, 5)])
def test_nothing_has_no_size(size: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="has no size; expected at least 1×1"):
        token_count(*size)
    with pytest.raises(ValueError, match="has no size; expected at least 1×1"):
        fitted_size(*size)


def test_the_official_library_counts_the_same_everywhere() -> None:
    official = pytest.importorskip("deepseek_recipe")

    def official_count(width: int, height: int) -> int:
        adjustment: int = official.MultiModalData([official.ImageInfo(b"", width, height)]).image_token_adjustment()
        return adjustment + 1

    sides = [1, 2, 3, 13, 14, 15, 41, 42, 43, 79, 165, 543, 544, 545, 1000, 8000, 8192, 16383, 65535, 10**9, 2**32 - 1]
    sizes = [(width, height) for width in sides for height in sides]
    sizes += [(width, width * ratio + width // 3) for width in range(43, 600, 7) for ratio in (60, 120, 200)]
    sizes += [
        ((1022 - rows) * k, rows * rows * k) for rows in range(1, 95) for k in (1, 2, 5)
    ]  # of whole rows, exactly
    sizes += [(columns * (columns + 1) * k, 1022 * k) for columns in range(1, 95) for k in (1, 2, 5)]
    assert [token_count(*size) for size in sizes] == [official_count(*size) for size in sizes]
