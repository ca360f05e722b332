"""Content as clients write it, in the form that the official dialect has (content.py).

Promises: no text is lost; blocks of an unknown kind give their text, or are told as left out. What cannot be a
message's content is refused with its place.
"""

from collections.abc import Iterator
from typing import Any

from whitedwarf.protocol.image_parts import UNSUPPORTED_IMAGE
from whitedwarf.protocol.local_values import expected
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.openai_chat.content import SEPARATOR

Block = dict[str, Any]

_IMAGE_KINDS = frozenset({"image_url", "input_image", "image"})
_FILE_KINDS = frozenset({"file", "input_file"})
_THOUGHT_KINDS = frozenset({"thinking", "reasoning"})
_TEXT_MEMBERS = ("text", "refusal", "thinking", "content", "output")  # where blocks of any kind keep their text


def local_content(value: Any, path: str, notes: Notes) -> str | list[Block]:
    """A text, or a list of official blocks."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return [block for item in _items(value, path) for block in _official_block(item, path, notes)]


def local_text(value: Any, path: str, notes: Notes) -> str:
    """Content that can only be text: images become the words for one, and thoughts are no part of it."""
    if isinstance(value, list):
        value = [item for item in value if not _is_thought(item)]
    content = local_content(value, path, notes)
    if isinstance(content, str):
        return content
    return SEPARATOR.join(_text_only(block, path, notes) for block in content)


def thoughts_within(value: Any) -> str | None:
    """The thoughts that stand among the blocks of an answer."""
    if not isinstance(value, list):
        return None
    texts = [_text_within(item) for item in value if _is_thought(item)]
    return "\n".join(text for text in texts if text) or None


def _items(value: Any, path: str) -> list[Any]:
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise expected(path, "a text or a list of blocks", value)
    return value


def _official_block(item: Any, path: str, notes: Notes) -> Iterator[Block]:
    """The block in its official form; none where nothing of it is of use."""
    if isinstance(item, str):
        yield {"type": "text", "text": item}
        return
    if not isinstance(item, dict):
        raise expected(path, "blocks that are objects", item)
    kind = _kind(item)
    if kind == "text" and item.get("text") is not None:
        yield {"type": "text", "text": item["text"]}
    elif kind in _IMAGE_KINDS:
        yield _image(item)
    elif kind in _FILE_KINDS:
        yield _file(item)
    elif (text := _text_within(item)) is not None:
        yield {"type": "text", "text": text}
    elif kind != "text":
        notes.warn(f"Content blocks of type {shortened(kind)} are not understood and were left out.")


def _kind(item: Block) -> str:
    kind = item.get("type", "text")
    return kind if isinstance(kind, str) else shortened(kind)


def _text_within(item: Block) -> str | None:
    for member in _TEXT_MEMBERS:
        if isinstance(item.get(member), str):
            return str(item[member])
    return None


def _is_thought(item: Any) -> bool:
    return isinstance(item, dict) and _kind(item) in _THOUGHT_KINDS


def _image(item: Block) -> Block:
    """An image by its address, by a bare address, or as Anthropic has it."""
    address = item.get("image_url")
    source = item.get("source")
    if isinstance(address, str):
        address = {"url": address, "detail": item.get("detail")}
    elif address is None and isinstance(source, dict):
        address = {"url": _source_url(source)}
    return {"type": "image_url"} if address is None else {"type": "image_url", "image_url": address}


def _source_url(source: Block) -> Any:
    if source.get("type") == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    return source.get("url")


def _file(item: Block) -> Block:
    """A file, its members in the block itself or in an object of their own."""
    nested = item.get("file")
    members = nested if isinstance(nested, dict) else item
    return {"type": "file", **{name: members.get(name) for name in ("file_id", "file_data", "filename")}}


def _text_only(block: Block, path: str, notes: Notes) -> str:
    if block["type"] != "text":
        notes.warn("Images in assistant messages were left out.")
        return UNSUPPORTED_IMAGE
    if not isinstance(block["text"], str):
        raise expected(path, "the text of a block to be a string", block["text"])
    return block["text"]
