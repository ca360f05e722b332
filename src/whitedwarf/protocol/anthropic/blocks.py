"""Content blocks of Messages requests as typed values, and the official reading of them.

Promises: errors in the official library's words and order (spec/recipe.md 2 and 5). What may stand where is not known
here: see placement.py. The wider reading of the local policy is in local_blocks.py; it gives the same values.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import Reader, anything, boolean, list_of, optional, record, required, string, tagged
from whitedwarf.protocol.fields import variant as one_of


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class Base64Image:
    """An image within the request."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class WebImage:
    """An image elsewhere."""

    url: str


@dataclass(frozen=True, slots=True)
class StoredImage:
    """An image uploaded earlier, which no server of ours keeps."""

    file_id: str


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """An image, not yet checked."""

    source: Base64Image | WebImage | StoredImage


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A document; `text` is what can be shown of it (the official reading shows nothing)."""

    media_type: str | None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class ThinkingBlock:
    """Earlier reasoning; its signature is not kept."""

    thinking: str


@dataclass(frozen=True, slots=True)
class ServerToolBlock:
    """Use or result of a tool that some server ran. Only its kind matters."""

    kind: str


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A call; `input` may be any JSON value."""

    id: str
    name: str
    input: Json


@dataclass(frozen=True, slots=True)
class ToolReference:
    """Names a declared tool whose definition is to be told."""

    name: str


ResultPart: TypeAlias = TextBlock | ImageBlock | DocumentBlock | ToolReference


@dataclass(frozen=True, slots=True)
class ToolResultBlock:
    """What a tool gave; `tool_use_id` is None only in the local reading."""

    tool_use_id: str | None
    parts: tuple[ResultPart, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolAddition:
    """A declared tool that becomes known in the middle of the conversation."""

    reference: ToolReference


Block: TypeAlias = (
    TextBlock
    | ImageBlock
    | DocumentBlock
    | ThinkingBlock
    | ServerToolBlock
    | ToolUseBlock
    | ToolResultBlock
    | ToolAddition
)

MEDIA_TYPES = ("image/jpeg", "image/jpg", "image/png", "image/gif", "image/webp")


def text_or_list(read_item: Reader) -> Reader:
    """A reader of a text, which is the same as one text block, or of a list of blocks: both as a tuple of blocks."""
    read_list = list_of(read_item)

    def read(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str):
            return (TextBlock(value),)
        if not isinstance(value, list | tuple):
            raise MalformedRequest("expected a string or a list")
        return tuple(read_list(value))

    return read


def _result(tool_use_id: str, content: tuple[ResultPart, ...] | None, is_error: bool | None) -> ToolResultBlock:
    return ToolResultBlock(tool_use_id, content or ())


def _reference(tool_name: str) -> ToolReference:
    return ToolReference(tool_name)


def _thinking(thinking: str, signature: str | None) -> ThinkingBlock:
    return ThinkingBlock(thinking)


def _server_use(id: str, name: str, input: Json) -> ServerToolBlock:
    return ServerToolBlock("server_tool_use")


def _search_result(tool_use_id: str, content: Json) -> ServerToolBlock:
    return ServerToolBlock("web_search_tool_result")


_IMAGE_SOURCE = tagged(
    "MessagesImageSource",
    {
        "base64": record(
            "variant MessagesImageSource::Base64",
            {"media_type": required(one_of(*MEDIA_TYPES)), "data": required(string)},
            Base64Image,
        ),
        "url": record("variant MessagesImageSource::Url", {"url": required(string)}, WebImage),
        "file": record("variant MessagesImageSource::File", {"file_id": required(string)}, StoredImage),
    },
    is_inner=True,
)
_DOCUMENT_SOURCE = record("MessagesDocumentSource", {"media_type": optional(string)}, DocumentBlock)


def _shared(enum: str) -> dict[str, Reader]:
    """The blocks that messages and results have in common; `enum` is what the library calls either's blocks."""
    return {
        "text": record(f"variant {enum}::Text", {"text": required(string)}, TextBlock),
        "image": record(f"variant {enum}::Image", {"source": required(_IMAGE_SOURCE)}, ImageBlock),
        "document": record(f"variant {enum}::Document", {"source": required(_DOCUMENT_SOURCE)}, lambda source: source),
    }


_REFERENCE = record("variant MessagesToolResultBlock::ToolReference", {"tool_name": required(string)}, _reference)
_ADDED_TOOL = tagged(
    "MessagesToolReference",
    {
        "tool_reference": record(
            "variant MessagesToolReference::ToolReference", {"name": required(string)}, ToolReference
        )
    },
    is_inner=True,
)
_RESULT_PART = tagged("MessagesToolResultBlock", {**_shared("MessagesToolResultBlock"), "tool_reference": _REFERENCE})
_USE_FIELDS = {"id": required(string), "name": required(string), "input": required(anything)}
_RESULT_FIELDS = {
    "tool_use_id": required(string),
    "content": optional(text_or_list(_RESULT_PART)),
    "is_error": optional(boolean),
}
_THINKING_FIELDS = {"signature": optional(string), "thinking": required(string)}

content_block = tagged(
    "MessagesContentBlock",
    {
        **_shared("MessagesContentBlock"),
        "thinking": record("variant MessagesContentBlock::Thinking", _THINKING_FIELDS, _thinking),
        "server_tool_use": record("variant MessagesContentBlock::ServerToolUse", _USE_FIELDS, _server_use),
        "tool_use": record("variant MessagesContentBlock::ToolUse", _USE_FIELDS, ToolUseBlock),
        "tool_result": record("variant MessagesContentBlock::ToolResult", _RESULT_FIELDS, _result),
        "web_search_tool_result": record(
            "variant MessagesContentBlock::WebSearchToolResult",
            {"tool_use_id": required(string), "content": required(anything)},
            _search_result,
        ),
        "tool_addition": record(
            "variant MessagesContentBlock::ToolAddition",
            {"tool": required(_ADDED_TOOL)},
            lambda tool: ToolAddition(tool),
        ),
    },
)
"""Reads one block of a message's content, officially."""

system_block = tagged(
    "MessagesSystemBlock", {"text": record("variant MessagesSystemBlock::Text", {"text": required(string)}, TextBlock)}
)
"""Reads one block of the system prompt, officially."""
