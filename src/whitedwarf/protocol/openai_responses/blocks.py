"""What the parts of a message or of a tool's output say, read and joined (spec/recipe.md 4, 11)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from whitedwarf.conversation.content import Content, IllustratedText, ImageSource
from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.fields import Reader, list_of, optional, record, required, string, tagged, variant
from whitedwarf.protocol.image_parts import UNSUPPORTED_IMAGE, file_id_refused, image_url_source
from whitedwarf.protocol.openai_responses.literals import UNSUPPORTED_DOCUMENT

_SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image, by URL or by a stored file's id."""

    image_url: str | None
    file_id: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class FileBlock:
    """A file, of which nothing is read."""


Block: TypeAlias = TextBlock | ImageBlock | FileBlock
Blocks: TypeAlias = str | tuple[Block, ...]

_CONTENT_ENUM, _OUTPUT_ENUM = "ResponsesContentBlock", "ResponsesToolCallOutputItem"
_IMAGE = record(
    "ResponsesInputImage",
    {
        "image_url": optional(string),
        "detail": optional(variant("low", "high", "original", "auto"), default="high"),
        "file_id": optional(string),
    },
    ImageBlock,
)


def _text(name: str) -> Reader:
    return record(f"variant {name}", {"text": required(string)}, TextBlock)


def _file(enum: str) -> Reader:
    return record(f"variant {enum}::InputFile", {}, FileBlock)


def _blocks(read_block: Reader, expected: str) -> Callable[[Json], Blocks]:
    read_list = list_of(read_block)

    def read(value: Json) -> Blocks:
        if isinstance(value, str):
            return value
        if not isinstance(value, list | tuple):
            raise MalformedRequest(expected)
        blocks: list[Any] = read_list(value)
        return tuple(blocks)

    return read


read_content = _blocks(
    tagged(
        _CONTENT_ENUM,
        {
            "input_text": _text(f"{_CONTENT_ENUM}::InputText"),
            "output_text": _text(f"{_CONTENT_ENUM}::OutputText"),
            "input_image": _IMAGE,
            "input_file": _file(_CONTENT_ENUM),
        },
    ),
    "content should be a string or a list of content blocks",
)
"""Reads what a message says."""

read_output = _blocks(
    tagged(
        _OUTPUT_ENUM,
        {
            "input_text": _text(f"{_OUTPUT_ENUM}::InputText"),
            "input_image": _IMAGE,
            "input_file": _file(_OUTPUT_ENUM),
        },
    ),
    "output should be a string or a list of output content parts",
)
"""Reads what a tool gave."""


def joined_blocks(blocks: Blocks, version: ModelVersion, path: str, member: str) -> Content:
    """All blocks as one content; images are checked, and have a place, only where the model sees them.

    RefusedRequest for what is no image. `path` is where the item stands, `member` the name of its blocks.
    """
    if isinstance(blocks, str):
        return blocks
    if version is not ModelVersion.V4:
        _check_images(blocks, f"{path}.{member}")
    texts, parts, sources = [], [], []
    for index, block in enumerate(blocks):
        if index:
            texts.append(_SEPARATOR)
        piece = _piece(block, version, path)
        if isinstance(piece, str):
            texts.append(piece)
        else:
            parts.append("".join(texts))
            sources.append(piece)
            texts.clear()
    text = "".join(texts)
    return IllustratedText((*parts, text), tuple(sources)) if sources else text


def joined_answer(blocks: Blocks, version: ModelVersion, path: str) -> str:
    """What the model said, which is text alone; RefusedRequest for images, unless the model sees none anyway."""
    if not isinstance(blocks, str) and version is not ModelVersion.V4:
        _check_images(blocks, f"{path}.content")
        if any(isinstance(block, ImageBlock) for block in blocks):
            raise RefusedRequest(f"{path}: Image in assistant message is unsupported")
    content = joined_blocks(blocks, ModelVersion.V4, path, "content")
    assert isinstance(content, str)
    return content


def _check_images(blocks: Iterable[Block], path: str) -> None:
    """Refuse images that are in none or in two places, all of them before any address is looked at."""
    for index, block in enumerate(blocks):
        if not isinstance(block, ImageBlock):
            continue
        if not block.image_url and block.file_id is None:
            raise RefusedRequest(f"{path}[{index}]: input_image must have image_url or file_id")
        if block.image_url and block.file_id is not None:
            raise RefusedRequest(f"{path}[{index}]: input_image cannot have both image_url and file_id")
        if block.file_id is not None:
            raise file_id_refused(f"{path}[{index}]")


def _piece(block: Block, version: ModelVersion, path: str) -> str | ImageSource:
    match block:
        case TextBlock(text):
            return text
        case FileBlock():
            return UNSUPPORTED_DOCUMENT
        case ImageBlock(image_url, _, detail):
            return UNSUPPORTED_IMAGE if version is ModelVersion.V4 else image_url_source(image_url or "", detail, path)
