"""A stretch of a prompt that is tokenised on its own: it begins with a control token, and so does what follows it."""

import sys
from dataclasses import dataclass

from whitedwarf.conversation.content import BytesImage, DataUrlImage, ImageSource
from whitedwarf.prompt.segments import Segment, Text

_SEGMENT_BYTES = 64  # of the object itself and its place; control segments are shared


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """Segments, and the images of the messages in it. One that `comes_again` is the same object each time."""

    segments: tuple[Segment, ...]
    images: tuple[ImageSource, ...] = ()
    comes_again: bool = False

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        texts = sum(sys.getsizeof(part.text) for part in self.segments if isinstance(part, Text))
        return texts + sum(map(_image_bytes, self.images)) + _SEGMENT_BYTES * len(self.segments)


def _image_bytes(image: ImageSource) -> int:
    match image:
        case DataUrlImage(data_url):
            return sys.getsizeof(data_url)
        case BytesImage(data):
            return sys.getsizeof(data)
        case _:
            return sys.getsizeof(image.url)
