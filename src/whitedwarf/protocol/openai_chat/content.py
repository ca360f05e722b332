"""What Chat messages say: a text, or blocks of text, images and files (spec/recipe.md 3 and 11).

Reads JSON to blocks, and makes conversation content of them: blocks are joined by an empty line, and on V4 every image
is the official words for one.
"""

from dataclasses import dataclass
from typing import TypeAlias

from whitedwarf.conversation.content import Content, IllustratedText, ImageDetail, ImageSource, joined
from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.fields import list_of, optional, record, required, string, tagged, variant
from whitedwarf.protocol.image_parts import UNSUPPORTED_IMAGE, file_source, image_url_source

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
    {"url": required(string), "detail": optional(variant(*ImageDetail))},
    ImageAddress,
)
_READ_BLOCK = tagged(
    "ChatCompletionRequestContentBlock",
    {
        "text": record("ChatCompletionRequestContentBlock", {"text": required(string)}, TextBlock),
        "image_url": record("ChatCompletionRequestContentBlock", {"image_url": required(_READ_ADDRESS)}, ImageBlock),
        "file": record(
            "ChatCompletionRequestContentBlock",
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
    contents = [_block_content(block, path, version) for block in blocks]
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
    return SEPARATOR.join(_assistant_text(block, path, version) for block in blocks)


def _assistant_text(block: Block, path: str, version: ModelVersion) -> str:
    if version is ModelVersion.V41 and isinstance(block, ImageBlock):
        raise RefusedRequest("Image in assistant message is not supported")
    content = _block_content(block, path, version)
    if not isinstance(content, str):
        raise RefusedRequest("Image in assistant message is not supported")
    return content


def _block_content(block: Block, path: str, version: ModelVersion) -> Content:
    match block:
        case TextBlock(text):
            return text
        case _ if version is ModelVersion.V4:
            return UNSUPPORTED_IMAGE
        case ImageBlock(ImageAddress(url, detail)):
            return _image(image_url_source(url, detail, path))
        case FileBlock(file_id, file_data):
            return _image(file_source(file_id, file_data, path))


def _image(source: ImageSource) -> Content:
    return IllustratedText(("", ""), (source,))
