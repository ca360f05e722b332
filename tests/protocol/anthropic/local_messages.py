"""Messages requests under the local policy, short to write in tests."""

from typing import Any

from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.protocol.anthropic.convert import convert
from whitedwarf.protocol.converted import Converted, MessagesReply
from whitedwarf.protocol.policy import local

BOTH = list(ModelVersion)
HELLO = {"role": "user", "content": "hello"}
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def read(version: ModelVersion, *messages: Any, **others: Any) -> Converted[MessagesReply]:
    return convert({"model": "any", "max_tokens": 9, "messages": list(messages), **others}, local(version))


def prompt(version: ModelVersion, *messages: Any, **others: Any) -> str:
    result = read(version, *messages, **others)
    return encode(result.conversation, result.version).rendered().text


def tool(name: str, **others: Any) -> dict[str, Any]:
    return {"name": name, "description": f"does {name}", "input_schema": {"type": "object"}, **others}


def text(content: str, **others: Any) -> dict[str, Any]:
    return {"type": "text", "text": content, **others}


def thinking(content: str, **others: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": content, **others}


def use(call_id: str, name: str = "f", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any = "done", **others: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **others}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}
