"""What Chat messages say: a text, or blocks of text, images and files (spec/recipe.md 3 and 11).

Reads JSON to blocks, and makes conversation content of them: blocks are joined by an empty line, and on V4 every image
is the official words for one.
"""

from dataclasses import dataclass
from typing import TypeAlias

from whitedwarf.conversation.content import Content, IllustratedText, ImageDetail, joined
from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.fields import list_of, optional, record, required, string, tagged, variant
from whitedwarf.protocol.image_parts import UNSUPPORTED_IMAGE, file_url, image_url_source

SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Some text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImageAddress:
    """Where an image is, or the image itself as a data URL."""

    url: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image."""

    image_url: ImageAddress


@dataclass(frozen=True, slots=True)
class FileBlock:
    """A file, which has to be an image."""

    file_id: str | None = None
    file_data: str | None = None
    filename: str | None = None


Block: TypeAlias = TextBlock | ImageBlock | FileBlock
Blocks: TypeAlias = str | list[Block]

_READ_ADDRESS = record(
    "ChatCompletionImageUrl",
    {"url": required(string), "detail": optional(variant(*ImageDetail), default=ImageDetail.HIGH.value)},
    ImageAddress,
)
_ENUM = "ChatCompletionRequestContentBlock"
_READ_BLOCK = tagged(
    _ENUM,
    {
        "text": record(f"variant {_ENUM}::Text", {"text": required(string)}, TextBlock),
        "image_url": record(f"variant {_ENUM}::ImageUrl", {"image_url": required(_READ_ADDRESS)}, ImageBlock),
        "file": record(
            f"variant {_ENUM}::File",
            {"file_id": optional(string), "file_data": optional(string), "filename": optional(string)},
            FileBlock,
        ),
    },
)
_READ_BLOCKS = list_of(_READ_BLOCK)


def read_blocks(value: Json) -> Blocks:
    """A message's content as the official library accepts it."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise MalformedRequest("content should be a string or a list")
    blocks: list[Block] = _READ_BLOCKS(value)
    return blocks


def content_of(blocks: Blocks, path: str, version: ModelVersion) -> Content:
    """The conversation's content; RefusedRequest, with `path`, for images that are none."""
    if isinstance(blocks, str):
        return blocks
    contents = _contents(blocks, path, version)
    if all(isinstance(content, str) for content in contents):
        return SEPARATOR.join(map(str, contents))
    whole = contents[0]
    for content in contents[1:]:
        whole = joined(whole, content, SEPARATOR)
    return whole


def text_of(blocks: Blocks, path: str, version: ModelVersion) -> str:
    """The content of an assistant's message, which has no images."""
    if isinstance(blocks, str):
        return blocks
    if version is ModelVersion.V41 and any(map(_is_image, _without_files(blocks, path))):
        raise RefusedRequest("Image in assistant message is not supported")
    return SEPARATOR.join(map(str, _contents(blocks, path, version)))


def _contents(blocks: list[Block], path: str, version: ModelVersion) -> list[Content]:
    if version is ModelVersion.V4:
        return [block.text if isinstance(block, TextBlock) else UNSUPPORTED_IMAGE for block in blocks]
    return [_content(block, path) for block in _without_files(blocks, path)]


def _without_files(blocks: list[Block], path: str) -> list[TextBlock | ImageBlock]:
    """Files as the images they hold: all of them are looked at before any image."""
    return [_file_image(block, path) if isinstance(block, FileBlock) else block for block in blocks]


def _is_image(block: TextBlock | ImageBlock) -> bool:
    return isinstance(block, ImageBlock)


def _file_image(block: FileBlock, path: str) -> ImageBlock:
    if block.file_id is not None and block.file_data is None and block.filename is not None:
        raise RefusedRequest(f"{path}: file cannot have filename when file_id is present")
    return ImageBlock(ImageAddress(file_url(block.file_id, block.file_data, path)))


def _content(block: TextBlock | ImageBlock, path: str) -> Content:
    if isinstance(block, TextBlock):
        return block.text
    address = block.image_url
    return IllustratedText(("", ""), (image_url_source(address.url, address.detail, path),))
