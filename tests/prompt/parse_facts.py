"""The official parse vectors, and both their protocol events and ours, brought down to the same dialect-free facts.

A fact is a tuple: ("reasoning", text), ("text", text), ("call", name), ("arguments", fragment), ("finish", reason).
"""

import gzip
import json
from pathlib import Path
from typing import Any

from whitedwarf.conversation.events import (
    ArgumentsDelta,
    BackendReason,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    ToolCallStarted,
)
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions, ParseStart
from whitedwarf.prompt.tokenizer import Tokenizer

Fact = tuple[str, str]
Vector = dict[str, Any]
GOLDEN = Path(__file__).parents[1] / "golden" / "recipe" / "parse.jsonl.gz"


def load_vectors() -> list[Vector]:
    return [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).splitlines()]


def options_of(vector: Vector) -> ParseOptions:
    """What the official conversion makes of these requests (spec/recipe.md 6); the vectors use no other fields."""
    request = vector["request"]
    thinks = (
        request.get("thinking", {}).get("type") == "enabled" or request.get("reasoning", {}).get("effort") == "high"
    )
    stop = request.get("stop", request.get("stop_sequences", ()))
    response_format = request.get("response_format") or request.get("text", {}).get("format") or {}
    return ParseOptions(
        mode=ParseMode.STRICT,
        start=_start(request, thinks),
        parse_tool_calls=bool(request.get("tools")),
        starts_in_tool_calls=request.get("tool_choice") == "required",
        parse_json_output=response_format.get("type") == "json_object",
        stop_strings=(stop,) if isinstance(stop, str) else tuple(stop),
    )


def _start(request: Vector, thinks: bool) -> ParseStart:
    if not thinks:
        return ParseStart.CONTENT
    messages = request.get("messages")
    last = messages[-1] if messages else {}
    if not last.get("prefix"):
        return ParseStart.REASONING
    if last.get("content"):
        return ParseStart.CONTENT_CONTINUED
    return ParseStart.REASONING_CONTINUED if last.get("reasoning_content") else ParseStart.REASONING


def our_pushes(vector: Vector, tokenizer: Tokenizer) -> tuple[list[list[Fact]], Finished]:
    """Facts per pushed chunk (the last entry is the final `finish()`), and our last event."""
    parser = OutputParser(options_of(vector), tokenizer)
    pushes: list[list[Event]] = []
    for chunk in vector["chunks"]:
        if parser.is_finished:
            break
        kind = chunk[0]
        if kind == "ready":
            pushes.append([])
        elif kind == "text":
            pushes.append(parser.feed_text(chunk[1], chunk[2]))
        elif kind == "tokens":
            pushes.append(parser.feed_ids(chunk[1]))
        else:
            pushes.append(parser.finish(BackendReason(chunk[1])))
    pushes.append(parser.finish())
    last = next(event for push in pushes for event in push if isinstance(event, Finished))
    return [[fact for event in push for fact in facts_of(event)] for push in pushes], last


def facts_of(event: Event) -> list[Fact]:
    match event:
        case ReasoningDelta(text):
            return [("reasoning", text)]
        case TextDelta(text):
            return [("text", text)]
        case ToolCallStarted(_, name):
            return [("call", name)]
        case ArgumentsDelta(_, fragment):
            return [("arguments", fragment)]
        case Finished(reason, stop_string):
            return [("finish", reason.value if stop_string is None else f"{reason.value} {stop_string}")]
    return []


def official_pushes(vector: Vector) -> list[list[Fact]]:
    project = {"chat": _chat, "responses": _responses, "messages": _messages}[vector["protocol"]]
    events = iter(vector["expect"]["events"])
    return [
        [fact for _ in range(count) for fact in project(next(events), vector)] for count in vector["expect"]["per_push"]
    ]


def _chat(chunk: Vector, vector: Vector) -> list[Fact]:
    choice = chunk["choices"][0]
    delta = choice["delta"]
    if choice["finish_reason"]:
        return [("finish", choice["finish_reason"])]
    if "role" in delta:
        return []
    if "tool_calls" in delta:
        function = delta["tool_calls"][0]["function"]
        return [("call", function["name"])] if "name" in function else [("arguments", function["arguments"])]
    if delta.get("reasoning_content") is not None:
        return [("reasoning", delta["reasoning_content"])]
    return [("text", delta["content"])]


def _responses(event: Vector, vector: Vector) -> list[Fact]:
    kind = event["type"]
    deltas = {
        "response.reasoning_text.delta": "reasoning",
        "response.output_text.delta": "text",
        "response.function_call_arguments.delta": "arguments",
        "response.custom_tool_call_input.delta": "custom input",
    }
    if kind in deltas:
        return [(deltas[kind], event["delta"])]
    if kind == "response.output_item.added" and event["item"]["type"].endswith("_call"):
        item = event["item"]
        name = item.get("name", "tool_search")
        return [("call", f"{item['namespace']}::{name}" if item.get("namespace") else name)]
    if kind == "response.incomplete":
        reason = event["response"]["incomplete_details"]["reason"]
        return [("finish", "length" if reason == "max_output_tokens" else reason)]
    # Responses has one word for every other end.
    return [("finish", "completed")] if kind == "response.completed" else []


def _messages(event: Vector, vector: Vector) -> list[Fact]:
    if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
        return [("call", event["content_block"]["name"])]
    delta = event.get("delta", {})
    match delta.get("type"):
        case "thinking_delta":
            return [("reasoning", delta["thinking"])]
        case "text_delta":
            return [("text", delta["text"])]
        case "input_json_delta":
            return [("arguments", delta["partial_json"])]
    if event["type"] != "message_delta":
        return []
    words = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
    reason = delta["stop_reason"]
    if reason == "stop_sequence":
        return [("finish", f"{FinishReason.STOP_STRING.value} {delta['stop_sequence']}")]
    return [("finish", words[reason])]
