"""The `response` object: what an answer is told to be at its beginning, at its end, and when it is not streamed.

Promises: every official member in the official order (spec/recipe.md 13); the request's settings repeated where it has
any. Does not know events.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.converted import PromptUsage, ReplyIdentity, ResponsesReply

ResponseStatus: TypeAlias = Literal["in_progress", "completed", "incomplete", "failed"]


@dataclass(frozen=True, slots=True)
class ResponseState:
    """What changes while an answer comes into being."""

    status: ResponseStatus
    completed_at: int | None = None
    output: Sequence[Mapping[str, Json]] = ()
    usage: Mapping[str, Json] | None = None
    incomplete_reason: str | None = None
    error: Mapping[str, Json] | None = None


def response_object(identity: ReplyIdentity, reply: ResponsesReply, state: ResponseState) -> dict[str, Json]:
    """The whole object; members of `reply.echo` replace the official defaults."""
    body: dict[str, Json] = {
        "id": identity.id,
        "object": "response",
        "created_at": identity.created,
        "status": state.status,
    }
    settings: dict[str, Json] = {**_SETTINGS, **reply.echo}
    if not reply.is_official:
        settings["tools"] = [_described(tool) for tool in _listed(settings["tools"])]
    known = {
        "completed_at": state.completed_at,
        "error": None if state.error is None else dict(state.error),
        "incomplete_details": None if state.incomplete_reason is None else {"reason": state.incomplete_reason},
        "model": identity.model,
        "output": [dict(item) for item in state.output],
        "usage": None if state.usage is None else dict(state.usage),
    }
    return body | {name: known[name] if name in known else settings[name] for name in _MEMBERS}


def usage_object(
    prompt: PromptUsage, output_tokens: int, reasoning_tokens: int, *, is_official: bool
) -> dict[str, Json]:
    """The tokens of prompt and answer; OpenAI's own clients also want to know what was newly kept of the prompt."""
    cached: dict[str, Json] = {"cached_tokens": prompt.cached_tokens}
    if not is_official:
        cached["cache_write_tokens"] = prompt.prompt_tokens - prompt.cached_tokens
    return {
        "input_tokens": prompt.prompt_tokens,
        "input_tokens_details": cached,
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning_tokens},
        "total_tokens": prompt.prompt_tokens + output_tokens,
    }


def _listed(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list | tuple) else []


def _described(tool: Json) -> Json:
    """A namespace has to have a description for OpenAI's own clients, if an empty one."""
    if isinstance(tool, Mapping) and tool.get("type") == "namespace" and tool.get("description") is None:
        return {**tool, "description": ""}
    return tool


_MEMBERS = (
    *("background", "completed_at", "content_filters", "error", "frequency_penalty", "incomplete_details"),
    *("instructions", "max_output_tokens", "max_tool_calls", "model", "moderation", "output", "parallel_tool_calls"),
    *("presence_penalty", "previous_response_id", "prompt_cache_key", "prompt_cache_retention", "reasoning"),
    *("safety_identifier", "service_tier", "store", "temperature", "text", "tool_choice", "tools", "top_logprobs"),
    *("top_p", "truncation", "usage", "user", "metadata"),
)
_SETTINGS: Mapping[str, Json] = {
    **dict.fromkeys(_MEMBERS),
    "background": False,
    "frequency_penalty": 0.0,
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "store": False,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": None},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "metadata": {},
}
