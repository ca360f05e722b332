"""`GET /openapi.json`: every address of this server, what it takes and what it may answer (OpenAPI 3.1).

Promises: statuses and content types are those that are really sent, which tests hold against a running server. A plain
JSON object, made from the tables here and in openapi_requests.py and openapi_answers.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from whitedwarf import __version__
from whitedwarf.server.json_schemas import Schema, members, reference, text
from whitedwarf.server.openapi_answers import ANSWERS
from whitedwarf.server.openapi_requests import REQUESTS

_STATUSES = {
    400: "It is no request, makes no sense, or its prompt is too long for the context.",
    401: "No key of this server's was sent; only where it has keys.",
    403: "A web page of another site, or a foreign Host header.",
    404: "Nothing of that name is here.",
    405: "Another method is answered here: see the header `Allow`.",
    408: "The body came too slowly.",
    411: "The body's length is not told.",
    413: "The body is too large.",
    415: "The body is not `application/json`, or is compressed.",
    429: "Too many requests wait: try again after `Retry-After` seconds.",
    500: "A bug of this server's; its log says more.",
    503: "It is shutting down, has lost its engine, or gets too much at once: try again after `Retry-After` seconds.",
}
_EVERYWHERE = (401, 403, 405)
_OF_BODIES = (400, 408, 411, 413, 415, 500, 503)
_OF_ANSWERS = (429,)
_SENT_EVENT = members(
    {"event": text("Its type, in Responses and Messages."), "data": text("JSON, or [DONE] at the end.")},
    "With `stream`: one of the answer's events, which are sent as they come.",
)


@dataclass(frozen=True, slots=True)
class _Post:
    """An address that takes a request of a dialect; `answer` names what a whole one gives."""

    summary: str
    tag: str
    request: str
    answer: str
    is_streamed: bool = True

    @property
    def error(self) -> str:
        return "AnthropicError" if self.tag == "Anthropic" else "OpenAIError"

    def operation(self, path: str) -> Schema:
        statuses = (*_OF_BODIES, *_EVERYWHERE, *(_OF_ANSWERS if self.is_streamed else ()))
        return {
            "operationId": _id("post", path),
            "summary": self.summary,
            "tags": [self.tag],
            "requestBody": {"required": True, "content": {"application/json": {"schema": reference(self.request)}}},
            "responses": {"200": self._success(), **_refusals(statuses, self.error)},
        }

    def _success(self) -> Schema:
        content: Schema = {"application/json": {"schema": reference(self.answer)}}
        if not self.is_streamed:
            return {"description": "The count.", "content": content}
        content["text/event-stream"] = {"schema": _SENT_EVENT}
        warning = {"description": "What was asked for and is not done (RFC 7234, 5.5).", "schema": {"type": "string"}}
        return {"description": "The answer.", "content": content, "headers": {"Warning": warning}}


@dataclass(frozen=True, slots=True)
class _Get:
    """An address that tells something; `content` is its schema by content type."""

    summary: str
    content: Mapping[str, Schema]
    statuses: tuple[int, ...] = _EVERYWHERE
    parameters: tuple[Schema, ...] = ()
    is_open: bool = False

    def operation(self, path: str) -> Schema:
        content = {kind: {"schema": schema} for kind, schema in self.content.items()}
        told: Schema = {
            "operationId": _id("get", path),
            "summary": self.summary,
            "tags": ["OpenAI" if path.startswith("/v1") else "Server"],
            "responses": {
                "200": {"description": self.summary, "content": content},
                **_refusals(self.statuses, "OpenAIError"),
            },
        }
        if self.parameters:
            told["parameters"] = list(self.parameters)
        return told | ({"security": []} if self.is_open else {})


def _json(name: str) -> dict[str, Schema]:
    return {"application/json": reference(name)}


_MODEL_ID = {"name": "model_id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
_PAGE = {"text/plain": text(), "text/html": text("For those who accept it.")}

_PLACES: Mapping[str, _Post | _Get] = {
    "/v1/chat/completions": _Post("Answer a conversation", "OpenAI", "ChatRequest", "ChatAnswer"),
    "/v1/responses": _Post("Answer a conversation", "OpenAI", "ResponsesRequest", "ResponsesAnswer"),
    "/v1/completions": _Post("Answer a text", "OpenAI", "CompletionRequest", "CompletionAnswer"),
    "/v1/messages": _Post("Answer a conversation", "Anthropic", "MessagesRequest", "MessagesAnswer"),
    "/v1/messages/count_tokens": _Post(
        "How long a prompt is", "Anthropic", "MessagesRequest", "TokenCount", is_streamed=False
    ),
    "/v1/chat/completions/input_tokens": _Post(
        "How long a prompt is", "OpenAI", "ChatRequest", "TokenCount", is_streamed=False
    ),
    "/v1/responses/input_tokens": _Post(
        "How long a prompt is", "OpenAI", "ResponsesRequest", "ResponsesTokenCount", is_streamed=False
    ),
    "/v1/models": _Get("The loaded model", _json("ModelList")),
    "/v1/models/{model_id}": _Get("The loaded model", _json("Model"), (*_EVERYWHERE, 404), (_MODEL_ID,)),
    "/health": _Get("Whether it runs", _json("Health"), (403, 405, 503), is_open=True),
    "/metrics": _Get("Counters for Prometheus", {"text/plain": text()}),
    "/props": _Get("What runs here", _json("Props")),
    "/openapi.json": _Get("This document", {"application/json": {"type": "object"}}),
    "/": _Get("What runs here, for people", _PAGE),
}


@cache
def openapi_document() -> dict[str, Any]:
    """The whole document; not to be changed."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "whitedwarf",
            "version": __version__,
            "description": "DeepSeek V4 on your own machine, behind OpenAI's and Anthropic's interfaces.",
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": {path: _operations(path, place) for path, place in _PLACES.items()},
        "components": {
            "schemas": {**REQUESTS, **ANSWERS},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "Where the server has keys."},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "The same key."},
            },
        },
    }


def _operations(path: str, place: _Post | _Get) -> Schema:
    return {"post" if isinstance(place, _Post) else "get": place.operation(path)}


def _refusals(statuses: tuple[int, ...], error: str) -> Schema:
    content = {"application/json": {"schema": reference(error)}}
    return {str(status): {"description": _STATUSES[status], "content": content} for status in sorted(statuses)}


def _id(method: str, path: str) -> str:
    words = path.removeprefix("/v1").strip("/").replace("{", "").replace("}", "").replace(".", "_")
    return f"{method}_{words.replace('/', '_') or 'status'}"
