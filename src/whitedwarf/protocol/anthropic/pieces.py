"""What blocks of text, images and documents become: pieces of a message's content.

Promises: pieces are joined by blank lines, an image being a place and not a spelling; images are checked where the
model sees them, with the official texts and paths (spec/recipe.md 5 and 11).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from whitedwarf.conversation.content import Content, IllustratedText, ImageSource
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.anthropic.blocks import (
    MEDIA_TYPES,
    Base64Image,
    DocumentBlock,
    ImageBlock,
    StoredImage,
    TextBlock,
    WebImage,
)
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.image_parts import (
    UNSUPPORTED_IMAGE,
    base64_source,
    file_id_refused,
    image_url_source,
    web_source,
)
from whitedwarf.protocol.policy import Policy

Piece: TypeAlias = str | ImageSource
Showable: TypeAlias = TextBlock | ImageBlock | DocumentBlock

SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block stands: `path` is what its image remembers, `error_path` what a refusal names."""

    path: str
    error_path: str


def assembled(pieces: Sequence[Piece]) -> Content:
    """The pieces one after the other."""
    if len(pieces) == 1 and isinstance(only := pieces[0], str):
        return only
    texts: list[list[str]] = [[]]
    sources: list[ImageSource] = []
    for index, piece in enumerate(pieces):
        if index:
            texts[-1].append(SEPARATOR)
        if isinstance(piece, str):
            texts[-1].append(piece)
        else:
            sources.append(piece)
            texts.append([])
    parts = tuple("".join(part) for part in texts)
    return IllustratedText(parts, tuple(sources)) if sources else parts[0]


def piece_of(block: Showable, place: Place, version: ModelVersion, policy: Policy) -> Piece:
    """One block; RefusedRequest for what is no image, where the model sees images."""
    match block:
        case TextBlock(text):
            return text
        case DocumentBlock(media_type, text):
            return (
                f"[Unsupported document type: {'unknown' if media_type is None else media_type}]"
                if text is None
                else text
            )
        case ImageBlock(source):
            if version is ModelVersion.V4:
                return UNSUPPORTED_IMAGE
            if policy.is_official:
                return _official_source(source, place)
            return _local_source(source, place)


def _official_source(source: Base64Image | WebImage | StoredImage, place: Place) -> ImageSource:
    match source:
        case Base64Image(media_type, data):
            return base64_source(media_type, data, place.path, error_path=place.error_path)
        case WebImage(url):
            return web_source(url, place.path, error_path=place.error_path)
        case StoredImage():
            raise file_id_refused(place.error_path)


def _local_source(source: Base64Image | WebImage | StoredImage, place: Place) -> ImageSource:
    """Also data URLs, base64 in lines or without padding, and media types in capitals."""
    match source:
        case Base64Image(media_type, data):
            if media_type.lower() not in MEDIA_TYPES:
                raise RefusedRequest(
                    f"{place.error_path}: expected an image of type {', '.join(MEDIA_TYPES)}; got {media_type[:80]!r}. "
                    "Convert the image."
                )
            bare = "".join(data.split())
            return image_url_source(
                f"data:{media_type.lower()};base64,{bare}", None, place.path, error_path=place.error_path
            )
        case WebImage(url):
            return image_url_source(url.strip(), None, place.path, error_path=place.error_path)
        case StoredImage():
            raise file_id_refused(place.error_path)
