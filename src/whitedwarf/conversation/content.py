"""What a message says: plain text, or text with places for images.

Promises: a place for an image is not a spelling but a gap between two texts, so no text can forge one.
Does not read, fetch or resize images.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from whitedwarf.errors import ConversationError


class ImageDetail(StrEnum):
    """How closely an image is looked at."""

    LOW = "low"
    HIGH = "high"
    ORIGINAL = "original"
    AUTO = "auto"

    @classmethod
    def named(cls, name: str) -> "ImageDetail":
        """The detail of that name; ConversationError for any other."""
        if name not in list(cls):
            raise ConversationError(
                f'invalid detail {json.dumps(name, ensure_ascii=False)}; expected "low", "high", "original", or "auto"'
            )
        return cls(name)


@dataclass(frozen=True, slots=True)
class DataUrlImage:
    """An image inside a data URL; `path` is where the request had it, for error messages."""

    data_url: str
    detail: ImageDetail = ImageDetail.HIGH
    path: str = ""


@dataclass(frozen=True, slots=True)
class UrlImage:
    """An image elsewhere."""

    url: str
    detail: ImageDetail = ImageDetail.HIGH
    path: str = ""


@dataclass(frozen=True, slots=True)
class BytesImage:
    """An image at hand, still encoded."""

    data: bytes
    detail: ImageDetail = ImageDetail.HIGH
    path: str = ""


ImageSource: TypeAlias = DataUrlImage | UrlImage | BytesImage


@dataclass(frozen=True, slots=True)
class IllustratedText:
    """Text with a place for an image between each two neighbouring parts; sources may outnumber the places."""

    parts: tuple[str, ...]
    sources: tuple[ImageSource, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.parts) <= len(self.sources) + 1:
            raise ConversationError(
                f"illustrated text has {len(self.parts)} parts and {len(self.sources)} images; "
                "expected at least one part and an image for each place between two"
            )

    @classmethod
    def split_at(cls, image_token: str, text: str, sources: tuple[ImageSource, ...]) -> "IllustratedText":
        """The first occurrences of `image_token`, one per source, become places; later ones stay text."""
        if not image_token:
            raise ConversationError("image_token must not be empty")
        return cls(tuple(text.split(image_token, len(sources))), sources)


Content: TypeAlias = str | IllustratedText


def text_parts(content: Content) -> tuple[str, ...]:
    """The texts, with a place for an image between each two."""
    return (content,) if isinstance(content, str) else content.parts


def image_sources(content: Content) -> tuple[ImageSource, ...]:
    """The images that belong to it, in order."""
    return () if isinstance(content, str) else content.sources


def is_empty(content: Content) -> bool:
    """Whether neither text nor a place for an image is there."""
    return text_parts(content) == ("",)


def joined(contents: Iterable[Content], separator: str) -> Content:
    """One after the other, the separator between those that are not empty; in time that grows with them all."""
    parts: list[list[str]] = [[]]
    sources: list[ImageSource] = []
    has_said = False
    for content in contents:
        first, *others = text_parts(content)
        if has_said and not is_empty(content):
            parts[-1].append(separator)
        parts[-1].append(first)
        parts += [[text] for text in others]
        sources += image_sources(content)
        has_said = has_said or not is_empty(content)
    texts = tuple(["".join(pieces) for pieces in parts])
    return IllustratedText(texts, tuple(sources)) if sources else texts[0]
