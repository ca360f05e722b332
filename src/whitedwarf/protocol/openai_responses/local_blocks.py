"""What messages and outputs say, as clients write it.

Promises: no text is lost; blocks of an unknown kind give their text, or are told as left out. What the model itself
said is text alone.
"""

from collections.abc import Iterator

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.image_parts import UNSUPPORTED_IMAGE
from whitedwarf.protocol.local_values import Object, expected, json_text, object_of, text_at
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.openai_responses.blocks import Block, Blocks, FileBlock, ImageBlock, TextBlock

_IMAGE_KINDS = ("input_image", "image_url", "image", "computer_screenshot")
_FILE_KINDS = ("input_file", "file")
_DETAILS = ("low", "high", "original", "auto")
_TEXT_MEMBERS = ("text", "refusal", "thinking", "content", "output")  # where blocks of any kind keep their text


def local_content(value: Json, path: str, notes: Notes) -> Blocks:
    """A text, or blocks; MalformedRequest for what can be neither."""
    if value is None or isinstance(value, str):
        return value or ""
    items = [value] if isinstance(value, dict) else value
    if not isinstance(items, list | tuple):
        raise expected(path, "a text or a list of blocks", value)
    return tuple(block for index, item in enumerate(items) for block in _blocks(item, f"{path}[{index}]", notes))


def local_answer(value: Json, path: str, notes: Notes) -> Blocks:
    """The same for what the model said, in which the words for an image stand for each image."""
    content = local_content(value, path, notes)
    if isinstance(content, str) or not any(isinstance(block, ImageBlock) for block in content):
        return content
    notes.warn("Images in assistant messages were left out.")
    return tuple(TextBlock(UNSUPPORTED_IMAGE) if isinstance(block, ImageBlock) else block for block in content)


def local_output(value: Json, path: str, notes: Notes) -> Blocks:
    """The same for what a tool gave; what is neither text nor blocks is told as JSON."""
    items = value if isinstance(value, list | tuple) else [value]
    if value is not None and not all(isinstance(item, dict) and "type" in item for item in items):
        return json_text(value)
    return local_content(value, path, notes)


def texts_within(value: Json) -> str:
    """All texts of a text, a block or a list of blocks, a line each."""
    items = value if isinstance(value, list | tuple) else [value]
    texts = (item if isinstance(item, str) else _text_within(item) for item in items)
    return "\n".join(text for text in texts if text is not None)


def _blocks(item: Json, path: str, notes: Notes) -> Iterator[Block]:
    """The block; none where nothing of it is of use."""
    if isinstance(item, str):
        yield TextBlock(item)
        return
    block = object_of(item, path)
    kind = block.get("type", "text")
    if kind in _IMAGE_KINDS:
        yield _image(block, path)
    elif kind in _FILE_KINDS:
        notes.warn("Files are not read: the model is told that there was one.")
        yield FileBlock()
    elif (text := _text_within(block)) is not None:
        yield TextBlock(text)
    else:
        notes.warn(f"Content blocks of type {shortened(kind)} are not understood and were left out.")


def _text_within(item: Json) -> str | None:
    if not isinstance(item, dict):
        return None
    return next((item[member] for member in _TEXT_MEMBERS if isinstance(item.get(member), str)), None)


def _image(block: Object, path: str) -> ImageBlock:
    """An image by its address, bare or in an object of its own."""
    nested = block.get("image_url")
    if isinstance(nested, dict):
        block = block | {"image_url": nested.get("url"), "detail": nested.get("detail")}
    detail = block.get("detail")
    address, file_id = text_at(block, "image_url", path), text_at(block, "file_id", path)
    return ImageBlock(address, file_id, detail if detail in _DETAILS else None)
