"""Short ways to write Chat bodies, and to convert them under the local policy."""

from typing import Any

from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.protocol.converted import ChatReply, Converted
from whitedwarf.protocol.openai_chat.convert import convert
from whitedwarf.protocol.policy import local

Object = dict[str, Any]
ASK = {"role": "user", "content": "Hello"}
RUN = {
    "type": "function",
    "function": {
        "name": "run",
        "description": "Runs.",
        "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}},
    },
}


def converted(*messages: Object, version: ModelVersion = ModelVersion.V41, **options: Any) -> Converted[ChatReply]:
    return convert({"model": "any", "messages": list(messages) or [ASK], **options}, local(version))


def prompt_of(*messages: Object, version: ModelVersion = ModelVersion.V41, **options: Any) -> str:
    return encode(converted(*messages, version=version, **options).conversation, version).rendered().text


def call(call_id: str | None, name: str = "run", arguments: Any = '{"cmd": "ls"}') -> Object:
    made = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return made if call_id is None else {"id": call_id, **made}


def calls(*made: Object, **members: Any) -> Object:
    return {"role": "assistant", "content": None, "tool_calls": list(made), **members}


def result(call_id: str | None, content: Any = "done") -> Object:
    return {"role": "tool", "content": content} | ({} if call_id is None else {"tool_call_id": call_id})
