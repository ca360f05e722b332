"""Random images against the official library's preprocessor: the same sizes, and the same picture but for its WebP."""

import io

import deepseek_recipe as recipe
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageStat

from whitedwarf.conversation.content import BytesImage, ImageDetail
from whitedwarf.prompt.images import PreparedImage, prepared_images

MOST_DIFFERENCE = 6  # of 255, on average: WebP loses that much, resamplers differ by less

sides = st.one_of(st.integers(1, 60), st.integers(1, 1200), st.sampled_from([1, 2, 3, 544, 2000, 8192]))
kinds = st.sampled_from(
    [
        *[(mode, "PNG") for mode in ("RGB", "RGBA", "L", "LA", "P")],
        *[("RGB", "JPEG"), ("CMYK", "JPEG"), ("P", "GIF"), ("RGB", "WEBP"), ("RGBA", "WEBP")],
    ]
)


def official(data: bytes, detail: ImageDetail) -> recipe.ImageInfo:
    return recipe.OpenCvImagePreprocessor().preprocess(data, recipe.PreprocessOptions(detail.value, 8192, 512))


def encoded(width: int, height: int, mode: str, kind: str) -> bytes:
    """A picture without sharp edges."""
    gradients = [Image.linear_gradient("L"), Image.linear_gradient("L").rotate(90), Image.radial_gradient("L")]
    picture = Image.merge("RGB", gradients).resize((width, height))
    if mode in ("RGBA", "LA"):
        picture.putalpha(Image.radial_gradient("L").resize((width, height)))
    stream = io.BytesIO()
    picture.convert(mode).save(stream, kind)
    return stream.getvalue()


def difference(ours: PreparedImage, theirs: recipe.ImageInfo) -> float:
    picture = Image.frombytes("RGB", (ours.width, ours.height), ours.pixels)
    shown = Image.open(io.BytesIO(theirs.data)).convert("RGB")
    return max(ImageStat.Stat(ImageChops.difference(picture, shown)).mean)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(sides, sides, kinds, st.sampled_from(list(ImageDetail)))
def test_an_image_becomes_the_official_one(width: int, height: int, kind: tuple[str, str], detail: ImageDetail) -> None:
    if width * height > 4_000_000:
        width = 1 + 4_000_000 // height
    data = encoded(width, height, *kind)
    (ours,) = prepared_images([BytesImage(data, detail)])
    theirs = official(data, detail)
    assert (ours.width, ours.height) == (theirs.width, theirs.height)
    assert ours.token_count - 1 == recipe.MultiModalData([theirs]).image_token_adjustment()
    is_blurred = detail is ImageDetail.LOW  # officially, really shrunk to 512 pixels and enlarged again
    if min(width, height) >= 16 and kind[0] != "P" and not is_blurred:
        assert difference(ours, theirs) < MOST_DIFFERENCE
