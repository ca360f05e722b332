"""What Chat messages say: a text, or blocks of text, images and files (spec/recipe.md 3 and 11).

Reads JSON to blocks, and makes conversation content of them: blocks are joined by an empty line, and on V4 every image
is the official words for one.
"""

from dataclasses import dataclass
from typing import TypeAlias

from whitedwarf.conversation.content import Content, IllustratedText, ImageDetail
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
    if version is ModelVersion.V4:
        return _with_words_for_images(blocks)
    texts: list[list[str]] = [[]]  # one for each stretch between images, in pieces
    sources = []
    for number, block in enumerate(_without_files(blocks, path)):
        texts[-1] += [SEPARATOR] if number else []
        if isinstance(block, TextBlock):
            texts[-1].append(block.text)
        else:
            sources.append(image_url_source(block.image_url.url, block.image_url.detail, path))
            texts.append([])
    parts = tuple("".join(pieces) for pieces in texts)
    return IllustratedText(parts, tuple(sources)) if sources else parts[0]


def text_of(blocks: Blocks, path: str, version: ModelVersion) -> str:
    """The content of an assistant's message, which has no images."""
    if isinstance(blocks, str):
        return blocks
    if version is ModelVersion.V41 and not all(map(_is_text, _without_files(blocks, path))):
        raise RefusedRequest("Image in assistant message is not supported")
    return _with_words_for_images(blocks)


def _with_words_for_images(blocks: list[Block]) -> str:
    return SEPARATOR.join(block.text if isinstance(block, TextBlock) else UNSUPPORTED_IMAGE for block in blocks)


def _without_files(blocks: list[Block], path: str) -> list[TextBlock | ImageBlock]:
    """Files as the images they hold: all of them are looked at before any image."""
    return [_file_image(block, path) if isinstance(block, FileBlock) else block for block in blocks]


def _is_text(block: Block) -> bool:
    return isinstance(block, TextBlock)


def _file_image(block: FileBlock, path: str) -> ImageBlock:
    if block.file_id is not None and block.file_data is None and block.filename is not None:
        raise RefusedRequest(f"{path}: file cannot have filename when file_id is present")
    return ImageBlock(ImageAddress(file_url(block.file_id, block.file_data, path)))
