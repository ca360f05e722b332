"""What the tests of the openai and anthropic libraries share: answers of a scripted model, requests, clients.

The clients validate strictly: whatever differs from the library's own types of an answer is an error.
"""

from typing import Any

import anthropic
import openai

from fakes.scripted_server import Served, calls, says
from server.serving import Running
from whitedwarf.engine.request import FinishReason

HELLO = says("I greet.</think>Hello, world!")
CALL = says("I look." + "</think>" + "Looking." + calls("run", cmd="ls -la"))
DONE = says("Now I know.</think>There are two files.")
CITY = says('Oslo.</think>{"name": "Oslo", "inhabitants": 717710}')
ENDLESS = says("a " * 200, delay_ms=50)
SLOW = says("x", prefill_s=60)
USER: Any = [{"role": "user", "content": "Say hello."}]
TOO_LONG: Any = [{"role": "user", "content": "word " * 5000}]
THINKING: Any = {"type": "enabled", "budget_tokens": 1024}
CHAT_TOOL: Any = {
    "type": "function",
    "function": {
        "name": "run",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
    },
}
RESPONSES_TOOL: Any = {"type": "function", **CHAT_TOOL["function"]}
MESSAGES_TOOL: Any = {
    "name": "run",
    "description": "Run a command.",
    "input_schema": CHAT_TOOL["function"]["parameters"],
}


def openai_client(served: Served | Running, **settings: Any) -> openai.OpenAI:
    return openai.OpenAI(**_openai(served, settings))


def async_openai_client(served: Served | Running, **settings: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(**_openai(served, settings))


def anthropic_client(served: Served | Running, **settings: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(**_anthropic(served, settings))


def async_anthropic_client(served: Served | Running, **settings: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(**_anthropic(served, settings))


def _openai(served: Served | Running, settings: dict[str, Any]) -> dict[str, Any]:
    ours = {"base_url": f"{served.url}/v1", "api_key": "none", "max_retries": 0}
    return {**ours, "_strict_response_validation": True, **settings}


def _anthropic(served: Served | Running, settings: dict[str, Any]) -> dict[str, Any]:
    ours = {"base_url": served.url, "api_key": "none", "max_retries": 0}
    return {**ours, "_strict_response_validation": True, **settings}


def is_cancelled(served: Served) -> bool:
    return served.last.finish is FinishReason.CANCELLED
