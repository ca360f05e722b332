"""From the images that a conversation names to their bytes, within the limits of one request.

Promises: ImageError, with the official texts (spec/recipe.md 11), for what cannot be had; never more memory than the
largest image that is allowed. No network here: who wants images from URLs hands in an ImageFetcher.
"""

from dataclasses import dataclass
from typing import Protocol

from whitedwarf.conversation.content import BytesImage, DataUrlImage, ImageSource, UrlImage
from whitedwarf.errors import ImageError
from whitedwarf.prompt.data_url import DataUrl

MOST_IMAGES = 600
_MOST_BYTES = 32 << 20
_MOST_BYTES_IN_ALL = 64 << 20


class ImageFetcher(Protocol):
    """Downloads images. Requests name the URLs, so whoever can send one decides what is asked of the network.

    An implementation therefore has to: take only http and https; connect only to addresses that it has checked, of
    which none is loopback, private, link-local, multicast or unspecified unless the operator says so; check every
    redirect like the first URL, and follow three at most; stop reading beyond `most_bytes`; end within seconds; send no
    cookies, credentials or proxy settings of its own. Failing, it raises ImageError with the text
    "Failed to download image from URL", and nothing about what it found there.
    """

    def fetch(self, url: str, most_bytes: int) -> bytes:
        """The bytes at `url`."""
        ...


@dataclass(slots=True)
class ImageReader:
    """Reads the images of one request, one after another, and counts their bytes."""

    fetcher: ImageFetcher | None = None
    bytes_read: int = 0

    def read(self, source: ImageSource) -> bytes:
        """The encoded image."""
        data = self._read(source)
        if len(data) > _MOST_BYTES:
            raise ImageError(f"{place_of(source)}: image file size exceeds limit {_MOST_BYTES >> 20} MB")
        self.bytes_read += len(data)
        if self.bytes_read > _MOST_BYTES_IN_ALL:
            raise ImageError(
                f"Total image size exceeds the limit: max {_MOST_BYTES_IN_ALL >> 20} MB per request, "
                f"got {self.bytes_read >> 20} MB"
            )
        return data

    def _read(self, source: ImageSource) -> bytes:
        match source:
            case BytesImage():
                return source.data
            case DataUrlImage():
                return _inside(source)
            case _:
                return self._fetched(source)

    def _fetched(self, source: UrlImage) -> bytes:
        if self.fetcher is None:
            raise ImageError(
                f"{place_of(source)}: this server takes no images from URLs; send the image itself, as a data URL "
                "(data:image/png;base64,…)"
            )
        return self.fetcher.fetch(source.url, _MOST_BYTES + 1)


def place_of(source: ImageSource) -> str:
    """Where the request has it, in the official library's words."""
    return f"{source.path}.image[0]" if source.path else "image[0]"


def unsupported(source: ImageSource) -> ImageError:
    """The error for what is no image of a kind that is taken."""
    return ImageError(
        f"{place_of(source)}: You have uploaded an unsupported image. Please make sure your image is valid and has one "
        "of the following formats: webp, png, jpeg, and gif."
    )


def _inside(source: DataUrlImage) -> bytes:
    parsed = DataUrl.parsed(source.data_url)
    data = None if parsed is None else parsed.decoded()
    if data is None:
        raise unsupported(source)
    return data
