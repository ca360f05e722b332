"""Requests of every dialect with a text in every field that a client controls, handed in one by one."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]
PNG = "data:image/png;base64,iVBORw0KGgo="


@dataclass(frozen=True)
class Texts:
    """Where the texts come from: `text` for any field, `own` for what the model itself said, `name` for tools."""

    text: Callable[[], str]
    own: Callable[[], str]
    name: Callable[[], str]
    is_official: bool

    def schema(self) -> Body:
        """Keys and values of all kinds; no pattern, which would have to be one."""
        inner = {"type": "string", "title": self.text(), "enum": [self.text()], "default": self.text()}
        return {
            "type": "object",
            "description": self.text(),
            "properties": {f"a{self.text()}": inner, f"b{self.text()}": {"const": {self.text(): [self.text(), 1]}}},
            f"x-{self.text()}": self.text(),
        }

    def members(self) -> Body:
        """What a call may be given."""
        return {f"a{self.text()}": self.text(), f"b{self.text()}": {self.text(): [self.text(), None]}, "c": 1}


def chat_request(texts: Texts) -> Body:
    text, own = texts.text, texts.own
    calls = [
        _chat_call(f"1{text()}", text(), json.dumps(texts.members())),
        _chat_call(f"2{text()}", text(), text()),
    ]
    messages = [
        {"role": "system", "content": text(), "name": text()},
        {"role": "system", "content": [_part(text()), _part(text())]},
        {"role": "user", "name": text(), "content": [_part(text()), _chat_image(text()), _chat_file(text())]},
        {"role": "latest_reminder", "content": text()},
        {"role": "assistant", "content": own(), "reasoning_content": own(), "tool_calls": calls, "name": text()},
        {"role": "tool", "tool_call_id": calls[0]["id"], "content": text(), "name": text()},
        {"role": "tool", "tool_call_id": calls[1]["id"], "content": [_part(text()), _part(text())]},
        {"role": "assistant", "content": [_part(own()), _part(own())], "reasoning_content": own()},
        *([] if texts.is_official else _chat_messages_of_clients(texts)),
        {"role": "user", "content": text()},
    ]
    tools = [
        _chat_tool(name=texts.name(), description=text(), parameters=texts.schema()),
        _chat_tool(name=texts.name(), description=text()),
    ]
    if not texts.is_official:
        grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": text()}}
        custom = {"name": texts.name(), "description": text(), "format": grammar}
        tools.append({"type": "custom", "custom": custom})
    return {
        "messages": messages,
        "tools": tools,
        "response_format": {"type": "json_schema", "json_schema": {"name": text(), "schema": texts.schema()}},
        "stop": [text(), text()],
        "user": text(),
        "metadata": {text(): text()},
    }


def _chat_messages_of_clients(texts: Texts) -> list[Body]:
    text = texts.text
    return [
        {"role": "developer", "content": text()},
        {"role": "user", "content": [{"type": f"x{text()}", "text": text()}]},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": texts.own()}]},
        {"role": "assistant", "content": None, "function_call": {"name": text(), "arguments": text()}},
        {"role": "function", "name": text(), "content": text()},
        {"role": "tool", "tool_call_id": f"3{text()}", "content": text()},
    ]


def _chat_call(call_id: str, name: str, arguments: str) -> Body:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _chat_tool(**function: Any) -> Body:
    return {"type": "function", "function": function}


def _part(text: str) -> Body:
    return {"type": "text", "text": text}


def _chat_image(text: str) -> Body:
    return {"type": "image_url", "image_url": {"url": f"https://{text}"}}


def _chat_file(name: str) -> Body:
    return {"type": "file", "file_data": PNG, "filename": name}


def completions_request(texts: Texts) -> Body:
    return {"prompt": texts.text(), "stop": [texts.text()], "user": texts.text(), "echo": True}


def messages_request(texts: Texts) -> Body:
    text, own = texts.text, texts.own
    first, second = f"1{text()}", f"2{text()}"
    names = [texts.name(), texts.name()]
    results = [
        {"type": "tool_result", "tool_use_id": first, "content": text()},
        {"type": "tool_result", "tool_use_id": second, "content": [_part(text()), _messages_image(), _part(text())]},
    ]
    used = [
        {"type": "tool_use", "id": first, "name": text(), "input": texts.members()},
        {"type": "tool_use", "id": second, "name": text(), "input": {"value": text()}},
    ]
    messages = [
        {"role": "user", "content": [_part(text()), _messages_image(), _part(text()), _document(texts)]},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": own(), "signature": text()}, _part(own()), *used],
        },
        {"role": "user", "content": [*results, _part(text())]},
        {"role": "assistant", "content": own()},
        *([] if texts.is_official else _messages_of_clients(texts)),
        {"role": "user", "content": text()},
    ]
    body = {
        "messages": messages,
        "max_tokens": 100,
        "system": [_part(text()), _part(text())],
        "tools": [{"name": name, "description": text(), "input_schema": texts.schema()} for name in names],
        "stop_sequences": [text(), text()],
        "metadata": {"user_id": text()},
    }
    if not texts.is_official:
        body["output_config"] = {"format": {"type": "json_schema", "schema": texts.schema()}}
    return body


def _messages_of_clients(texts: Texts) -> list[Body]:
    text = texts.text
    return [
        {"role": "user", "content": [{"type": f"x{text()}", "title": text(), "content": [_part(text())]}]},
        {"role": "system", "content": text()},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"3{text()}", "content": text()}]},
        {"role": "user", "content": [{"type": "web_search_tool_result", "content": [{"text": text()}]}]},
    ]


def _messages_image() -> Body:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def _document(texts: Texts) -> Body:
    kind = "text/plain" if texts.is_official else texts.text()
    source = {"type": "text", "media_type": kind, "data": texts.text()}
    return {"type": "document", "title": texts.text(), "context": texts.text(), "source": source}


def responses_request(texts: Texts) -> Body:
    text, own = texts.text, texts.own
    first, second, third = (f"{number}{text()}" for number in (1, 2, 3))
    items = [
        {"role": "user", "content": [_input(text()), _responses_image(text()), _responses_file(text())]},
        {"role": "system", "content": text()},
        {"role": "developer", "content": [_input(text())]},
        {"type": "reasoning", "id": text(), "content": [{"type": "reasoning_text", "text": own()}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": own()}], "phase": text()},
        {"type": "function_call", "call_id": first, "name": text(), "arguments": json.dumps(texts.members())},
        {"type": "function_call", "call_id": second, "name": text(), "arguments": text(), "namespace": text()},
        {"type": "custom_tool_call", "call_id": third, "name": text(), "input": text()},
        {"type": "function_call_output", "call_id": first, "output": text()},
        {"type": "function_call_output", "call_id": second, "output": [_input(text()), _responses_file(text())]},
        {"type": "custom_tool_call_output", "call_id": third, "output": text()},
        {"type": "tool_search_call", "call_id": f"4{first}", "execution": "client", "arguments": texts.members()},
        {
            "type": "tool_search_output",
            "call_id": f"4{first}",
            "execution": "client",
            "tools": [_responses_function(texts)],
        },
        *([] if texts.is_official else _items_of_clients(texts)),
        {"role": "user", "content": text()},
    ]
    space = {"type": "namespace", "name": texts.name(), "description": text(), "tools": [_responses_function(texts)]}
    custom = {"type": "custom", "name": "apply_patch" if texts.is_official else texts.name(), "description": text()}
    custom["format"] = {"type": "grammar", "syntax": "lark", "definition": text()}
    search = {"type": "tool_search", "execution": "client", "description": text(), "parameters": texts.schema()}
    shape = {"type": "json_schema", "name": text(), "description": text(), "schema": texts.schema()}
    return {
        "input": items,
        "instructions": text(),
        "tools": [_responses_function(texts), space, custom, search],
        "text": {"format": shape},
        "user": text(),
        "metadata": {text(): text()},
        "prompt_cache_key": text(),
    }


def _items_of_clients(texts: Texts) -> list[Body]:
    text = texts.text
    shell = {"command": [text()], "env": {text(): text()}}
    return [
        {"type": "local_shell_call", "call_id": f"5{text()}", "action": shell},
        {"type": "local_shell_call_output", "output": text()},
        {"type": f"x{text()}", "text": text()},
        {"type": "function_call_output", "call_id": f"6{text()}", "output": text()},
    ]


def _responses_function(texts: Texts) -> Body:
    described = {"description": texts.text(), "parameters": texts.schema()}
    return {"type": "function", "name": texts.name(), **described}


def _input(text: str) -> Body:
    return {"type": "input_text", "text": text}


def _responses_image(text: str) -> Body:
    return {"type": "input_image", "image_url": f"https://{text}"}


def _responses_file(text: str) -> Body:
    return {"type": "input_file", "filename": text, "file_data": PNG, "file_url": text}
