"""Outputs of a model run through parser and answer builder, one list of Responses events a push."""

from collections.abc import Sequence
from typing import Any

from whitedwarf.conversation.events import BackendReason
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.call_ids import CallIds
from whitedwarf.protocol.converted import PromptUsage, ReplyIdentity, ResponsesReply
from whitedwarf.protocol.openai_responses.answer import ResponsesAnswer
from whitedwarf.protocol.openai_responses.stream import ResponsesStream
from whitedwarf.protocol.token_log import TokenLog

StreamEvents = list[dict[str, Any]]
IDENTITY = ReplyIdentity("resp-1", "model-x", 0)


def official_reply(request: dict[str, Any], **members: Any) -> ResponsesReply:
    """What the official library makes of a request with this body, for the fields that these tests use."""
    tools = request.get("tools") or []
    effort = request.get("reasoning", {}).get("effort")
    joint = "__" if request["model"] == "DeepSeek-V4-Pro" else "::"
    spaces = [tool for tool in tools if tool["type"] == "namespace"]
    reply = {
        "is_thinking": effort != "none",
        "echo": echo_of(request),
        "namespaces": {
            f"{space['name']}{joint}{tool['name']}": (space["name"], tool["name"])
            for space in spaces
            for tool in space["tools"]
        },
        "custom_tools": frozenset(tool["name"] for tool in tools if tool["type"] == "custom"),
        "searches_tools": any(tool["type"] == "tool_search" and tool.get("execution") == "client" for tool in tools),
        "is_official": True,
    }
    return ResponsesReply(**{**reply, **members})


def echo_of(request: dict[str, Any]) -> dict[str, Any]:
    reasoning, text = request.get("reasoning", {}), request.get("text", {})
    return {
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "text": {"format": text.get("format", {"type": "text"}), "verbosity": text.get("verbosity")},
        "tools": [_told_tool(tool) for tool in request.get("tools") or []],
        "temperature": request.get("temperature", 1.0),
        "top_p": request.get("top_p", 1.0),
        "top_logprobs": request.get("top_logprobs", 0),
    }


def _told_tool(tool: dict[str, Any]) -> dict[str, Any]:
    head = {"type": tool["type"], "name": tool.get("name")}
    match tool["type"]:
        case "function":
            return {**head, **{key: tool.get(key) for key in ("description", "parameters", "strict")}}
        case "namespace":
            members = [_told_tool(member) for member in tool["tools"]]
            return {**head, "description": tool.get("description"), "tools": members}
        case "tool_search":
            settings = {key: tool.get(key) for key in ("execution", "description", "parameters")}
            return {"type": "tool_search", **settings}
    return head


def new_stream(reply: ResponsesReply, tokens: TokenLog | None = None) -> ResponsesStream:
    """A stream whose call ids end in an asterisk, as the vectors have them."""
    call_ids = CallIds(is_thinking=reply.is_thinking, suffix=lambda: "*")
    return ResponsesStream(IDENTITY, reply, tokens, call_ids=call_ids)


def run(
    chunks: Sequence[Any], options: ParseOptions, reply: ResponsesReply, tokenizer: Tokenizer | None = None
) -> tuple[list[StreamEvents], dict[str, Any]]:
    """Events per pushed chunk (the vectors' chunks; the last entry is the final `finish()`), and the body."""
    parser = OutputParser(options, tokenizer)
    tokens = None if tokenizer is None else TokenLog(tokenizer)
    stream, answer = new_stream(reply, tokens), ResponsesAnswer()
    pushes: list[StreamEvents] = []
    for kind, *values in chunks:
        if parser.is_finished:
            break
        if kind == "ready":
            told = stream.begin(PromptUsage(values[0].get("prompt_tokens", 0), values[0].get("cache", 0)))
        elif kind == "text":
            told = stream.take(parser.feed_text(*values))
        elif kind == "tokens":
            _log(tokens, *values)
            told = stream.take(parser.feed_ids(values[0]))
        else:
            told = stream.take(parser.finish(BackendReason(values[0])))
        pushes.append(told)
    pushes.append(stream.take(parser.finish()))
    for push in pushes:
        answer.take(push)
    return pushes, answer.body()


def _log(tokens: TokenLog | None, ids: Sequence[int], logprobs: Sequence[Any] | None = None) -> None:
    assert tokens is not None
    if logprobs is None:
        tokens.skip(len(ids))
        return
    for token_id, (logprob, top) in zip(ids, logprobs, strict=True):
        tokens.add(token_id, logprob, [(other, score) for other, score in top])
