"""The `openai` and `anthropic` packages' own clients, talking to a server that answers with one stream."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import httpx2
from anthropic import Anthropic
from openai import OpenAI


def openai_client(chunks: Iterable[Mapping[str, Any]]) -> OpenAI:
    return OpenAI(api_key="key", base_url="http://server/v1", max_retries=0, http_client=_server(_unnamed(chunks)))


def anthropic_client(events: Iterable[Mapping[str, Any]]) -> Anthropic:
    return Anthropic(api_key="key", base_url="http://server", max_retries=0, http_client=_server(_named(events)))


def _unnamed(chunks: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


def _named(events: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def _server(body: str) -> httpx2.Client:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body.encode())

    return httpx2.Client(transport=httpx2.MockTransport(answer))
