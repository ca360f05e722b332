"""What an MCP server answers, as text for the model. Pure; takes the objects of the `mcp` package by their shape."""

import json
from collections.abc import Sequence
from typing import Any

MOST_CHARACTERS = 200_000


def result_text(content: Sequence[Any], structured: Any) -> str:
    """All parts, in their order; what is no text is named. Without any part, the structured answer."""
    text = "\n".join(filter(None, map(_part, content)))
    if not text and structured is not None:
        text = json.dumps(structured, ensure_ascii=False, default=str)
    if len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]}\n[cut here: {len(text)} characters came, ask for less]"
    return text or "(no output)"


def _part(part: Any) -> str:
    match getattr(part, "type", ""):
        case "text":
            return str(part.text)
        case "image" | "audio" as kind:
            return f"[{kind}, {part.mime_type}, {len(part.data) * 3 // 4} bytes: cannot be shown as text]"
        case "resource":
            text = getattr(part.resource, "text", None)
            return f"[{part.resource.uri}]\n{text}" if isinstance(text, str) else f"[{part.resource.uri}: no text]"
        case "resource_link":
            return f"[{part.uri}]"
        case kind:
            return f"[a part of an unknown kind: {kind!s:.40}]"
