"""Images as the model sees them: decoded, upright, over white, resized onto grey; the one place that knows Pillow.

Promises: ImageError for whatever is no such image, however hostile; the size is known to be allowed before pixels are
decoded, so that memory stays below about 1.5 GB for the largest (8192×8192) and small for small ones. Pillow is
imported when the first image is. Sizes: image_size.py; spec: recipe.md 11.
"""

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from whitedwarf.conversation.content import ImageDetail, ImageSource
from whitedwarf.errors import ImageError
from whitedwarf.prompt.image_bytes import MOST_IMAGES, ImageFetcher, ImageReader, unsupported
from whitedwarf.prompt.image_size import fitted_size, token_count

if TYPE_CHECKING:
    from PIL.Image import Image, Transpose
    from PIL.ImageFile import ImageFile

_LONGEST_SIDE = 8192
_LONGEST_SIDE_OF_MANY = 4096
_MANY = 21
_LOW_DETAIL_SIDE = 512
_WHITE, _GREY = (255, 255, 255), (127, 127, 127)
_ORIENTATION = 0x0112
_MOST_SCANS = 100  # of a JPEG: cameras and editors write a dozen, a file of 32 MB could hold millions
_JPEG_MARKER = re.compile(rb"\xff([^\x00\x01\xd0-\xd8\xff])")  # without those that have no length
_SCAN, _JPEG_END = b"\xda", b"\xd9"


@dataclass(frozen=True, slots=True)
class PreparedImage:
    """What the vision tower gets: rows of red, green and blue bytes from the top; sides are multiples of 14."""

    width: int
    height: int
    token_count: int
    pixels: bytes


def prepared_images(sources: Sequence[ImageSource], fetcher: ImageFetcher | None = None) -> Iterator[PreparedImage]:
    """Each image of one request, ready for the model, one at a time; ImageError for the first that cannot be.

    An image at a URL needs a `fetcher`.
    """
    if len(sources) > MOST_IMAGES:
        raise ImageError(f"Too many images: max {MOST_IMAGES} images per request, got {len(sources)}")
    longest_side = _LONGEST_SIDE if len(sources) < _MANY else _LONGEST_SIDE_OF_MANY
    reader = ImageReader(fetcher)
    return (_prepared(source, reader.read(source), longest_side) for source in sources)


def prompt_adjustment(images: Iterable[PreparedImage]) -> int:
    """How many tokens more than it shows a prompt takes, which shows one for each image."""
    return sum(image.token_count - 1 for image in images)


def _prepared(source: ImageSource, data: bytes, longest_side: int) -> PreparedImage:
    try:
        opened = _opened(data)
        if opened is not None and min(opened.size) >= 1 and max(opened.size) <= longest_side:
            return _fitted(opened, source.detail)
    except Exception as error:  # Pillow's decoders raise nearly anything for broken files
        raise unsupported(source) from error
    raise unsupported(source)


def _opened(data: bytes) -> "ImageFile | None":
    # The readers themselves, not Image.open: no other format can be reached, and its warnings know larger sizes only.
    from PIL.GifImagePlugin import GifImageFile
    from PIL.JpegImagePlugin import JpegImageFile
    from PIL.PngImagePlugin import PngImageFile
    from PIL.WebPImagePlugin import WebPImageFile

    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return PngImageFile(BytesIO(data))
    if data.startswith(b"\xff\xd8\xff") and _scan_count(data) <= _MOST_SCANS:
        return JpegImageFile(BytesIO(data))
    if data.startswith((b"GIF87a", b"GIF89a")):
        return GifImageFile(BytesIO(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and max(_webp_size(data)) <= _LONGEST_SIDE:
        return WebPImageFile(BytesIO(data))
    return None


def _scan_count(data: bytes) -> int:
    """How often a JPEG has the decoder go over the whole picture, which takes its time even for a scan of no bytes."""
    count, at = 0, 2
    while count <= _MOST_SCANS and (found := _JPEG_MARKER.search(data, at)) and found[1] != _JPEG_END:
        count += found[1] == _SCAN
        at = found.end() + int.from_bytes(data[found.end() : found.end() + 2])
    return count


def _webp_size(data: bytes) -> tuple[int, int]:
    """Read here, as the library allocates whole pictures on opening a file."""
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
    elif kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
    return width, height


def _fitted(opened: "ImageFile", detail: ImageDetail) -> PreparedImage:
    from PIL.Image import Resampling, Transpose, new

    opened.load()
    turn = _turn(opened)
    is_sideways = turn in (Transpose.ROTATE_90, Transpose.ROTATE_270, Transpose.TRANSPOSE, Transpose.TRANSVERSE)
    width, height = reversed(opened.size) if is_sideways else opened.size
    if detail is ImageDetail.LOW:
        width, height = _capped(width, height)
    canvas = fitted_size(width, height)
    content = _contained(width, height, canvas.width, canvas.height)
    image = _over_white(opened).resize(content[::-1] if is_sideways else content, Resampling.BICUBIC)
    if turn is not None:
        image = image.transpose(turn)
    padded = new("RGB", (canvas.width, canvas.height), _GREY)
    padded.paste(image, (round((canvas.width - content[0]) / 2), round((canvas.height - content[1]) / 2)))
    return PreparedImage(canvas.width, canvas.height, token_count(canvas.width, canvas.height), padded.tobytes())


def _capped(width: int, height: int) -> tuple[int, int]:
    longest = max(width, height)
    if longest <= _LOW_DETAIL_SIDE:
        return width, height
    # halves up, officially, where the places of edges go to the even side
    width, height = ((2 * side * _LOW_DETAIL_SIDE + longest) // (2 * longest) for side in (width, height))
    return max(1, width), max(1, height)


def _contained(width: int, height: int, most_width: int, most_height: int) -> tuple[int, int]:
    """The largest size of the same shape within the given one."""
    if width * most_height > most_width * height:
        return most_width, max(1, round(height / width * most_width))
    return max(1, round(width / height * most_height)), most_height


def _over_white(image: "Image") -> "Image":
    from PIL.Image import new

    if image.mode.startswith("I"):  # 16 bits of grey
        image = image.point(lambda value: value / 256).convert("L")
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = new("RGB", image.size, _WHITE)
    white.paste(image, mask=image.getchannel("A"))
    return white


def _turn(image: "Image") -> "Transpose | None":
    """What brings a photograph upright, from what the camera wrote."""
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    try:
        return turns.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:
        return None
