"""Parts of Responses bodies, short enough to read tests by."""

from typing import Any

from whitedwarf.conversation.message import Message
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.converted import Converted, ResponsesReply
from whitedwarf.protocol.openai_responses.convert import convert
from whitedwarf.protocol.policy import local

Body = dict[str, Any]


def user(text: Any = "hello") -> Body:
    return {"type": "message", "role": "user", "content": text}


def assistant(text: Any) -> Body:
    return {"type": "message", "role": "assistant", "content": text}


def reasoning(text: str) -> Body:
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]}


def call(call_id: str, name: str = "run", arguments: Any = "{}", **more: Any) -> Body:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def output(call_id: str | None, text: Any = "done") -> Body:
    named = {} if call_id is None else {"call_id": call_id}
    return {"type": "function_call_output", "output": text, **named}


def function(name: str, **more: Any) -> Body:
    return {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}, **more}


def namespace(name: str, *tools: Body, **more: Any) -> Body:
    return {"type": "namespace", "name": name, "tools": list(tools), **more}


def custom(name: str, **more: Any) -> Body:
    return {"type": "custom", "name": name, **more}


def converted(*items: Body, version: ModelVersion = ModelVersion.V41, **more: Any) -> Converted[ResponsesReply]:
    """What our own policy makes of these items."""
    return convert({"input": list(items), **more}, local(version))


def messages(*items: Body, version: ModelVersion = ModelVersion.V41, **more: Any) -> tuple[Message, ...]:
    return converted(*items, version=version, **more).conversation.messages
