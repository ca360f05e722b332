"""Content blocks as the local policy reads them: everything that has one right reading.

Promises: the values of blocks.py. What a model can make nothing of is left out and noted; text in blocks of unknown
kinds is kept. Only what has no right reading at all raises MalformedRequest. Never looks deeper than results' parts.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.arguments import parse_arguments
from whitedwarf.protocol.anthropic.blocks import (
    Base64Image,
    Block,
    DocumentBlock,
    ImageBlock,
    ResultPart,
    StoredImage,
    TextBlock,
    ThinkingBlock,
    ToolAddition,
    ToolReference,
    ToolResultBlock,
    ToolUseBlock,
    WebImage,
)
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.local_values import Object, expected, object_of, text_at
from whitedwarf.protocol.notes import Notes, shortened

Read: TypeAlias = Callable[[Object, str, Notes], Block | ToolReference | None]

_TEXT_MEMBERS = ("title", "text", "content")
_MAX_SHOWN_DEPTH = 4  # of content within content


def content_blocks(content: Json, path: str, notes: Notes) -> tuple[Block, ...]:
    """A message's content: a text is one text block, nothing is none."""
    return tuple(block for block in _parts(content, path, _BLOCKS, notes) if not isinstance(block, ToolReference))


def _parts(content: Json, path: str, readers: Mapping[str, Read], notes: Notes) -> Iterator[Block | ToolReference]:
    if isinstance(content, dict):
        content = [content]
    if isinstance(content, str):
        yield TextBlock(content)
    elif isinstance(content, list | tuple):
        for index, item in enumerate(content):
            block = _block(item, f"{path}[{index}]", readers, notes)
            if block is not None:
                yield block
    elif content is not None:
        raise expected(path, "a text or a list of blocks", content)


def _block(item: Json, path: str, readers: Mapping[str, Read], notes: Notes) -> Block | ToolReference | None:
    if isinstance(item, str):
        return TextBlock(item)
    members = object_of(item, path)
    kind = text_at(members, "type", path)
    if kind is None and isinstance(members.get("text"), str):
        kind = "text"
    if kind is None:
        raise MalformedRequest(f"{path}.type: expected the block's type, got nothing. Say what kind of block it is.")
    read = readers.get(kind)
    return _other(members, kind, notes) if read is None else read(members, path, notes)


def _text(members: Object, path: str, notes: Notes) -> TextBlock:
    return TextBlock(text_at(members, "text", path) or "")


def _image(members: Object, path: str, notes: Notes) -> ImageBlock:
    source = object_of(members.get("source"), f"{path}.source")
    path = f"{path}.source"
    match source.get("type"):
        case "base64":
            return ImageBlock(
                Base64Image(text_at(source, "media_type", path) or "", text_at(source, "data", path) or "")
            )
        case "url":
            return ImageBlock(WebImage(text_at(source, "url", path) or ""))
        case "file":
            return ImageBlock(StoredImage(text_at(source, "file_id", path) or ""))
        case kind:
            raise expected(f"{path}.type", "one of base64, url, file", kind)


def _document(members: Object, path: str, notes: Notes) -> DocumentBlock:
    """Documents of text are shown; of others only the kind is told."""
    source = object_of(members.get("source"), f"{path}.source")
    path = f"{path}.source"
    media_type = text_at(source, "media_type", path)
    text: str | None = None
    if source.get("type") == "text":
        text = text_at(source, "data", path)
    elif source.get("type") == "content":
        text = _shown_text(source.get("content"))
    if text is None:
        notes.warn("Documents other than plain text were left out.")
    return DocumentBlock(media_type, text)


def _thinking(members: Object, path: str, notes: Notes) -> ThinkingBlock:
    return ThinkingBlock(text_at(members, "thinking", path) or "")


def _tool_use(members: Object, path: str, notes: Notes) -> ToolUseBlock:
    name = text_at(members, "name", path)
    if name is None:
        raise MalformedRequest(f"{path}.name: expected the name of the tool that was called, got nothing")
    call_id = text_at(members, "id", path)
    return ToolUseBlock(path if call_id is None else call_id, name, _input(members.get("input")))


def _input(value: Json) -> Json:
    """No input is an empty object, and so is the text of an object that object."""
    if value is None:
        return {}
    parsed = parse_arguments(value) if isinstance(value, str) else None
    return value if parsed is None else parsed


def _tool_result(members: Object, path: str, notes: Notes) -> ToolResultBlock:
    parts = _parts(members.get("content"), f"{path}.content", _RESULT_PARTS, notes)
    return ToolResultBlock(text_at(members, "tool_use_id", path), tuple(filter(_is_result_part, parts)))  # type: ignore[arg-type]


def _is_result_part(part: Block | ToolReference) -> bool:
    return isinstance(part, ResultPart)


def _reference(members: Object, path: str, notes: Notes) -> ToolReference | None:
    name = text_at(members, "tool_name", path) or text_at(members, "name", path)
    return None if name is None else ToolReference(name)


def _addition(members: Object, path: str, notes: Notes) -> ToolAddition | None:
    reference = _reference(object_of(members.get("tool"), f"{path}.tool"), f"{path}.tool", notes)
    return None if reference is None else ToolAddition(reference)


def _other(members: Object, kind: str, notes: Notes) -> TextBlock | None:
    """A block of a kind that is not known here: its text, where it has some."""
    text = "\n".join(filter(None, (_shown_text(members.get(name)) for name in _TEXT_MEMBERS)))
    if text:
        return TextBlock(text)
    notes.warn(f"Blocks of type {shortened(kind)} were left out.")
    return None


def _shown_text(content: Json, depth: int = 0) -> str | None:
    """The text in a text, a text block, or a list of these."""
    if isinstance(content, str):
        return content
    if depth == _MAX_SHOWN_DEPTH:
        return None
    if isinstance(content, dict):
        return _shown_text(content.get("text"), depth + 1)
    if isinstance(content, list | tuple):
        return "\n".join(filter(None, (_shown_text(item, depth + 1) for item in content))) or None
    return None


_RESULT_PARTS: Mapping[str, Read] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "tool_reference": _reference,
}
_BLOCKS: Mapping[str, Read] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "thinking": _thinking,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "tool_addition": _addition,
}
