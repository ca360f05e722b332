"""What the four dialects' requests may say, as JSON schemas: data, and no more of it than is true.

Promises: each member named here is read by the dialect's converter (tests hold them against each other); any other is
taken and counted. The schemas do not refuse everything that a converter does: they name types and ranges.
"""

from collections.abc import Mapping

from whitedwarf.server.json_schemas import Schema, array, flag, members, number, one_of, or_null, text, whole, word

ANY_MODEL = "Any name will do: one model is loaded, and answers under the name that was asked for."
_ITEM = one_of(
    "A message, a call, a result, or what else may stand in a conversation.",
    members(
        {
            "role": word("", "user", "assistant", "system", "developer"),
            "content": one_of("A text or parts.", text(), array(members({"type": text()}, required=("type",)))),
        },
        required=("role", "content"),
    ),
    members({"type": text()}, required=("type",)),
)
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SWITCHED = members({"type": word("", "enabled", "adaptive", "disabled")}, required=("type",))
_OBJECT: Schema = {"type": "object"}
_TYPED = members({"type": text()}, required=("type",))
_NAMED = members({"type": text(), "name": text()}, required=("type", "name"))
_CHOSEN = members({"type": word("", "function"), "function": members({"name": text()}, required=("name",))})

_THINKING: Mapping[str, Schema] = {
    "thinking": one_of("Whether to think before answering.", flag(), _SWITCHED),
    "think": one_of("Whether, or how hard, to think.", flag(), word("", *_EFFORTS)),
    "enable_thinking": flag("Whether to think before answering."),
    "reasoning_effort": word("How hard to think; none: not at all.", *_EFFORTS),
    "reasoning": members(
        {"effort": or_null(word("How hard to think.", *_EFFORTS)), "enabled": or_null(flag("Whether to think."))},
        "How to think.",
    ),
    "output_config": members({"effort": or_null(word("How hard to think.", *_EFFORTS))}, "The form of the answer."),
    "chat_template_kwargs": members(
        {"thinking": or_null(flag()), "enable_thinking": or_null(flag())}, "Where clients of llama.cpp and vLLM put it."
    ),
}
_DRAWING: Mapping[str, Schema] = {
    "temperature": number("0 always takes the likeliest token.", minimum=0, maximum=2),
    "top_p": number(
        "Draw from the likeliest tokens that together have this probability.", exclusiveMinimum=0, maximum=1
    ),
    "top_k": whole("Draw from so many of the likeliest tokens; 0 and less: from all."),
    "min_p": number("Leave out tokens less likely than this share of the likeliest.", minimum=0, maximum=1),
}
_SEED = {"seed": whole("Makes the draw repeatable; a negative one does not.", maximum=2**63)}
_STOP = one_of("Texts that end the answer.", text(), array(text()))
_TOKENS = "Most tokens of the answer, thoughts included; more than fits is cut to what does."
_OFFICIALLY: Mapping[str, Schema] = {
    "stream": flag("Tell the answer piece by piece, as server-sent events."),
    "stream_options": members({"include_usage": or_null(flag("A last chunk tells the usage."))}, "How to stream."),
    "presence_penalty": number(
        "Taken once from the logit of each token that came in the answer.", minimum=-2, maximum=2
    ),
    "frequency_penalty": number("Taken from a token's logit for each time that it came.", minimum=-2, maximum=2),
    "logit_bias": {
        "type": "object",
        "description": "By token id, what is added to its logit; not while thinking.",
        "additionalProperties": number(minimum=-100, maximum=100),
    },
    "n": whole("So many answers, each drawn on its own: with a seed, choice i has seed + i.", minimum=1, maximum=8),
}
_FUNCTION_NAME = members({"name": text()}, required=("name",))
_TOOL_NAME = text("Its name, without control characters or markup.", minLength=1, maxLength=256)
_FUNCTION = members(
    {"name": _TOOL_NAME, "description": or_null(text("What it is for.")), "parameters": or_null(_OBJECT)},
    required=("name",),
)


def _body(properties: Mapping[str, Schema], description: str, required: tuple[str, ...]) -> Schema:
    """What need not be there may also be null."""
    shown = {name: schema if name in required else or_null(schema) for name, schema in properties.items()}
    return members(shown, description, required)


CHAT_BODY = _body(
    {
        "model": text(ANY_MODEL),
        "messages": array(
            members(
                {
                    "role": word("", "system", "developer", "user", "assistant", "tool", "function"),
                    "content": or_null(one_of("A text or parts.", text(), array(_TYPED))),
                },
                required=("role",),
            ),
            "The conversation so far.",
            minItems=1,
        ),
        "max_tokens": whole(_TOKENS, minimum=1, maximum=2**32 - 1),
        "max_completion_tokens": whole(_TOKENS, minimum=1, maximum=2**32 - 1),
        "stop": _STOP,
        "logprobs": flag("Tell the log probability of each token."),
        "top_logprobs": whole("And of so many candidates.", minimum=0, maximum=20),
        "tools": array(
            members({"type": word("", "function", "custom"), "function": _FUNCTION}), "What the model may call."
        ),
        "tool_choice": one_of("Whether or which tool to call.", word("", "none", "auto", "required"), _CHOSEN),
        "functions": array(_FUNCTION, "Older form of tools."),
        "function_call": one_of("Older form of tool_choice.", word("", "none", "auto"), _FUNCTION_NAME),
        "parallel_tool_calls": flag("false: at most one call in an answer."),
        "response_format": one_of(
            "The form of the answer: asked for in the prompt.",
            members({"type": word("", "text", "json_object", "json_schema")}, required=("type",)),
            word("", "text", "json_object"),
        ),
        **_OFFICIALLY,
        **_DRAWING,
        **_SEED,
        **_THINKING,
    },
    "A Chat Completions request.",
    ("messages",),
)

COMPLETION_BODY = _body(
    {
        "model": text(ANY_MODEL),
        "prompt": one_of("The text to answer; of several the first.", text(), array(text(), minItems=1)),
        "max_tokens": whole(_TOKENS, minimum=1, maximum=2**32 - 1),
        "max_completion_tokens": whole(_TOKENS, minimum=1, maximum=2**32 - 1),
        "stop": _STOP,
        "logprobs": one_of("Tell log probabilities, of so many candidates.", flag(), whole(minimum=0, maximum=20)),
        "echo": flag("Begin the answer with the prompt."),
        "best_of": whole("The same number as n: answers are not ranked.", minimum=1, maximum=8),
        "suffix": text("Only an empty one: this model does not fill in the middle.", maxLength=0),
        **_OFFICIALLY,
        **_DRAWING,
        **_SEED,
        **_THINKING,
    },
    "A request for legacy Completions.",
    ("prompt",),
)

RESPONSES_BODY = _body(
    {
        "model": text(ANY_MODEL),
        "input": one_of("A text, or the items of the conversation so far.", text(), array(_ITEM, minItems=1)),
        "instructions": one_of("What the operator says, before all items.", text(), array(_TYPED)),
        "max_output_tokens": whole(_TOKENS, minimum=1, maximum=2**32 - 1),
        "max_tokens": whole(_TOKENS, minimum=1, maximum=2**32 - 1),
        "max_completion_tokens": whole(_TOKENS, minimum=1, maximum=2**32 - 1),
        "stream": flag("Tell the answer as events."),
        "stop": _STOP,
        "top_logprobs": whole("Log probabilities of so many candidates.", minimum=0, maximum=20),
        "text": members(
            {
                "format": or_null(
                    members({"type": word("", "text", "json_object", "json_schema")}, required=("type",))
                ),
                "verbosity": or_null(word("Read and not used.", "low", "medium", "high")),
            },
            "The form of the answer.",
        ),
        "tools": array(_OBJECT, "What the model may call."),
        "tool_choice": one_of("Whether or which tool to call.", word("", "none", "auto", "required"), _NAMED),
        "user": text("Read and not used."),
        "previous_response_id": {"type": "null", "description": "Nothing is stored: send the whole input."},
        "conversation": {"type": "null", "description": "Nothing is stored."},
        "prompt": {"type": "null", "description": "Nothing is stored."},
        **_DRAWING,
        **_SEED,
        **_THINKING,
        "reasoning": members(
            {
                "effort": or_null(word("How hard to think.", *_EFFORTS)),
                "enabled": or_null(flag("Whether to think.")),
                "summary": or_null(word("Whether thoughts are told.", "none", "auto", "concise", "detailed")),
            },
            "How to think.",
        ),
    },
    "A Responses request.",
    ("input",),
)

MESSAGES_BODY = _body(
    {
        "model": text(ANY_MODEL),
        "messages": array(
            members(
                {
                    "role": word("", "user", "assistant", "system", "developer"),
                    "content": one_of("A text or blocks.", text(), array(_TYPED)),
                },
                required=("role", "content"),
            ),
            "The conversation so far.",
            minItems=1,
        ),
        "max_tokens": whole(_TOKENS, minimum=1),
        "system": one_of("What the operator says.", text(), array(_TYPED)),
        "stream": flag("Tell the answer as events."),
        "stop_sequences": array(text(), "Texts that end the answer."),
        "tools": array(
            members({"name": _TOOL_NAME, "input_schema": or_null(_OBJECT)}, required=("name",)),
            "What the model may call.",
        ),
        "tool_choice": members({"type": word("", "none", "auto", "any", "tool")}, "Whether or which tool to call."),
        "output_format": members(
            {"type": word("", "json_schema"), "schema": _OBJECT}, "The form of the answer.", ("type", "schema")
        ),
        "metadata": _OBJECT | {"description": "Read and not used."},
        "context_management": _OBJECT | {"description": "Read and not used."},
        "cache_control": _OBJECT | {"description": "Read and not used: what was computed is kept anyhow."},
        "betas": array(text(), "Read and not used."),
        "anthropic_beta": array(text(), "Read and not used."),
        "anthropic_version": text("Read and not used."),
        **_DRAWING,
        **_THINKING,
    },
    "A Messages request.",
    ("messages",),
)

REQUESTS: Mapping[str, Schema] = {
    "ChatRequest": CHAT_BODY,
    "CompletionRequest": COMPLETION_BODY,
    "ResponsesRequest": RESPONSES_BODY,
    "MessagesRequest": MESSAGES_BODY,
}
"""By their names among the document's components."""
