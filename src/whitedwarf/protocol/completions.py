"""Legacy Completions requests: a text to answer, in a fixed frame, and everything that the model writes as the answer.

Promises: sampling, thinking and limits exactly as in Chat, for the request is read as one. Does not fill in the middle:
nothing is published about how V4 would be asked to. Spec: product.md B.6; the answers: completion_chunks.py.
"""

from collections.abc import Mapping
from typing import Any

from whitedwarf.config import DEFAULT_SYSTEM
from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.protocol.converted import CompletionReply, Converted
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.local_values import integer_at
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.openai_chat.convert import convert as convert_chat
from whitedwarf.protocol.openai_chat.sampling import MAX_TOP_LOGPROBS
from whitedwarf.protocol.policy import Policy

Object = dict[str, Any]

_OWN_FIELDS = frozenset({"prompt", "suffix", "echo", "best_of", "logprobs"})
_CHAT_ONLY = frozenset(
    {"messages", "tools", "tool_choice", "functions", "function_call", "response_format", "top_logprobs"}
)


def convert(body: Json, policy: Policy) -> Converted[CompletionReply]:
    """Convert a body as read_json gives it; RequestError (failures.py) for the first thing that is wrong with it."""
    if not isinstance(body, dict):
        raise MalformedRequest(f"expected a JSON object, got {shortened(body)}")
    notes = Notes()
    prompt = _prompt(body, notes)
    _check_refused(body)
    chat = convert_chat(_chat_body(body, prompt), policy)
    return Converted(
        model=chat.model,
        version=chat.version,
        conversation=chat.conversation,
        inference=chat.inference,
        constraint=None,
        parsing=ParseOptions(
            start=ParseStart.CONTENT_CONTINUED, parse_tool_calls=False, stop_strings=chat.parsing.stop_strings
        ),
        is_streamed=chat.is_streamed,
        num_choices=chat.num_choices,
        reply=CompletionReply(chat.reply.usage_chunk, prompt if _flag(body, "echo") else ""),
        warnings=(*notes.sentences, *chat.warnings),
        unknown_fields=(*chat.unknown_fields, *(name for name in body if name in _CHAT_ONLY)),
    )


def _chat_body(body: Object, prompt: str) -> Object:
    """The same request to Chat."""
    messages = [{"role": "system", "content": DEFAULT_SYSTEM}, {"role": "user", "content": prompt}]
    passed = {name: value for name, value in body.items() if name not in _OWN_FIELDS | _CHAT_ONLY}
    return {"messages": messages, **passed, **_log_probabilities(body)}


def _prompt(body: Object, notes: Notes) -> str:
    """The prompt, or the first of several."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt:
        if len(prompt) > 1:
            notes.warn("Only the first of the prompts was answered: send one request for each.")
        prompt = prompt[0]
    if prompt is None or prompt == []:
        raise MalformedRequest("prompt: missing prompt; expected a text")
    if not isinstance(prompt, str):
        raise MalformedRequest(f"prompt: expected a text or a list of texts, got {shortened(prompt)}")
    return prompt


def _check_refused(body: Object) -> None:
    if body.get("suffix") not in (None, ""):
        raise RefusedRequest(
            "suffix: this model is not known to fill in the middle; expected no suffix. "
            "Ask for the missing part in the prompt instead."
        )
    best_of, wanted = body.get("best_of"), 1 if body.get("n") is None else body["n"]
    if best_of is not None and (isinstance(best_of, bool) or best_of != wanted):
        raise RefusedRequest(
            f"best_of: expected the same number as n ({shortened(wanted)}), got {shortened(best_of)}: this server "
            "does not rank answers to keep the best. Ask for n answers and choose among them."
        )


def _log_probabilities(body: Object) -> Mapping[str, Json]:
    """Here `logprobs` is how many alternatives are told with each token."""
    count = body.get("logprobs")
    if count is None or count is False:
        return {}
    return {"logprobs": True} if count is True else {"logprobs": True, "top_logprobs": _num_alternatives(body)}


def _num_alternatives(body: Object) -> int | None:
    """OpenAI's own limit is 5; Chat's is good for both."""
    count = integer_at(body, "logprobs")
    if count is not None and not 0 <= count <= MAX_TOP_LOGPROBS:
        raise RefusedRequest(f"logprobs: expected a number of alternatives from 0 to {MAX_TOP_LOGPROBS}, got {count}")
    return count


def _flag(body: Object, name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise MalformedRequest(f"{name}: expected true or false, got {shortened(value)}")
    return bool(value)
