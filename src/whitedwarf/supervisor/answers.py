"""What the supervisor itself answers: bodies as llama-server writes them, byte for byte where clients read them.

Pure functions. The order of the keys and the missing spaces are llama-server's (spec/supervisor.md 4.1, 4.3); texts of
failures avoid the words by which clients recognise other failures (spec/supervisor.md 2.12).
"""

import json
import math
from collections.abc import Iterable, Mapping

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.failures import (
    QueueFullError,
    StartFailedError,
    UnloadedError,
    UpstreamError,
    WaitedTooLongError,
)
from whitedwarf.supervisor.upstream import Answer, Headers

_JSON = b"application/json; charset=utf-8"
_RETRY_AFTER_S = 5
_TAIL_LINES = 12

INVALID = "invalid_request_error"
UNAVAILABLE = "unavailable_error"


def json_bytes(value: object) -> bytes:
    """As llama-server writes JSON: no spaces, text as UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def json_answer(value: object, status: int = 200, more: Iterable[tuple[bytes, bytes]] = ()) -> Answer:
    """A value as an answer."""
    return _answer(status, json_bytes(value), _JSON, more)


def text_answer(text: str, kind: str, more: Iterable[tuple[bytes, bytes]] = ()) -> Answer:
    """A text as an answer."""
    return _answer(200, text.encode("utf-8", "replace"), kind.encode(), more)


def refusal(status: int, message: str, kind: str = INVALID, more: Iterable[tuple[bytes, bytes]] = ()) -> Answer:
    """An error in OpenAI's shape, keys in llama-server's order."""
    return json_answer({"error": {"code": status, "message": message, "type": kind}}, status, more)


def healthy() -> Answer:
    """Of `/health`."""
    return json_answer({"status": "ok"})


def loading() -> Answer:
    """While the model is on its way; the order of the keys is another one there."""
    return _plain(503, "Loading model", UNAVAILABLE)


def unloaded() -> Answer:
    """To what must not wake a model."""
    return _plain(503, "The model is not loaded: the next request for an answer loads it", UNAVAILABLE)


def not_found() -> Answer:
    """Of an address that is none."""
    return _plain(404, "File Not Found", "not_found_error")


def gone_port() -> Answer:
    """A connection has outlived its model's entry in the config."""
    return refusal(404, "the config has no model at this port any more", "not_found_error")


def wrong_key() -> Answer:
    """To a request without a key of ours."""
    return _plain(401, "Invalid API Key", "authentication_error")


def overflow(tokens: int, limit: int) -> Answer:
    """The prompt does not fit: clients compact when they read this."""
    said = f"request ({tokens} tokens) exceeds the available context size ({limit} tokens), try increasing it"
    error = {"code": 400, "message": said, "type": "exceed_context_size_error", "n_prompt_tokens": tokens}
    return json_answer({"error": {**error, "n_ctx": limit}}, 400)


def preflight(origin: str | None) -> Answer:
    """Of OPTIONS, as llama-server answers it; `origin`: one that may ask."""
    allowed = [
        (b"access-control-allow-origin", (origin or "").encode("latin-1")),
        (b"access-control-allow-credentials", b"true"),
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-allow-headers", b"*"),
    ]
    return _answer(200, b"", b"text/html", allowed)


def see_other(path: str) -> Answer:
    """To a browser: what came of its form is on this page."""
    return _answer(303, b"", b"text/html", [(b"location", path.encode())])


def failure(error: Exception) -> Answer:
    """Why a request gets no answer of a model, so that clients do what helps."""
    match error:
        case StartFailedError(is_permanent=True):
            return refusal(400, _with_tail(error), INVALID)
        case StartFailedError():
            return refusal(503, _with_tail(error), UNAVAILABLE, _later(error.retry_after_s))
        case QueueFullError():
            return refusal(429, str(error), "rate_limit_error", _later())
        case WaitedTooLongError() | UnloadedError():
            return refusal(503, str(error), UNAVAILABLE, _later())
        case UsageError():
            return refusal(404, str(error), "not_found_error")
        case UpstreamError():
            return refusal(502, str(error), "server_error")
        case _:
            return refusal(500, f"the supervisor failed: {type(error).__name__}; its log has more", "server_error")


def models(entries: Iterable[Mapping[str, object]]) -> Answer:
    """Of `/v1/models`: each entry has id, created, status and n_ctx."""
    listed = list(entries)
    return json_answer(
        {"models": [_ollama_model(one) for one in listed], "object": "list", "data": [_model(one) for one in listed]}
    )


def _model(entry: Mapping[str, object]) -> dict[str, object]:
    return {
        "id": entry["id"],
        "aliases": [],
        "tags": [],
        "object": "model",
        "created": entry["created"],
        "owned_by": "whitedwarf",
        "status": {"value": entry["status"]},
        "meta": {"n_ctx": entry["n_ctx"]} if entry["n_ctx"] else None,
    }


def _ollama_model(entry: Mapping[str, object]) -> dict[str, object]:
    """The list's other dialect, which llama-server tells, too."""
    name = entry["id"]
    empty = {"modified_at": "", "size": "", "digest": ""}
    kind = {"type": "model", "description": "", "tags": [""], "capabilities": ["completion"], "parameters": ""}
    details = {"parent_model": "", "format": "gguf", "family": "", "families": [""], "parameter_size": ""}
    return {"name": name, "model": name, **empty, **kind, "details": {**details, "quantization_level": ""}}


def _plain(status: int, message: str, kind: str) -> Answer:
    return json_answer({"error": {"message": message, "type": kind, "code": status}}, status)


def _with_tail(error: StartFailedError) -> str:
    tail = error.log_tail[-_TAIL_LINES:]
    is_told = all(line.strip() in str(error) for line in tail)  # a child that said one line
    return str(error) if is_told else "\n".join([str(error), "The end of its log:", *tail])


def _later(after_s: float | None = None) -> Headers:
    seconds = _RETRY_AFTER_S if after_s is None else max(1, math.ceil(after_s))
    return ((b"retry-after", b"%d" % seconds),)


def _answer(status: int, body: bytes, kind: bytes, more: Iterable[tuple[bytes, bytes]] = ()) -> Answer:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), *more]
    if status >= 400:
        headers.append((b"connection", b"close"))
    return Answer(status, tuple(headers), body)
