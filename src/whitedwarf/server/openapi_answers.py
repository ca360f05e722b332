"""What is sent back, as JSON schemas: answers, errors, and what the server says about itself."""

from collections.abc import Mapping

from whitedwarf.server.json_schemas import Schema, array, flag, members, number, or_null, reference, text, whole, word

_USAGE: Schema = {"type": ["object", "null"], "description": "Tokens of the prompt, of these cached, and generated."}
_OBJECT: Schema = {"type": "object"}
_CHOICES = array(_OBJECT, minItems=1)

_OPENAI_ERROR = members(
    {
        "error": members(
            {
                "message": text("What was expected, what came, and what to do."),
                "type": text(),
                "param": or_null(text("The member that is at fault.")),
                "code": text(),
                "n_prompt_tokens": whole("Where the prompt is too long: its length."),
                "n_ctx": whole("And the context's."),
            },
            required=("message", "type", "param", "code"),
        )
    },
    "There is no answer, in OpenAI's words.",
    ("error",),
)
_ANTHROPIC_ERROR = members(
    {
        "type": word("", "error"),
        "error": members({"type": text(), "message": text()}, required=("type", "message")),
    },
    "There is no answer, in Anthropic's words.",
    ("type", "error"),
)
_MODEL = members(
    {
        "id": text(),
        "object": word("", "model"),
        "type": word("", "model"),
        "created": whole("Unix seconds."),
        "created_at": text("The same in RFC 3339."),
        "owned_by": text(),
        "name": text(),
        "display_name": text(),
        "context_length": whole("Tokens of prompt and answer together."),
        "max_input_tokens": whole(),
        "supported_parameters": array(text()),
    },
    "The loaded model.",
    ("id", "object", "type", "created", "created_at", "context_length"),
)
_PROPS = members(
    {
        "default_generation_settings": members({"n_ctx": whole(), "params": {"type": "object"}}),
        "total_slots": whole("Requests answered at a time."),
        "model_alias": text(),
        "model_path": text("The file's name without its folder."),
        "n_ctx": whole(),
        "modalities": members({"vision": flag(), "audio": flag()}),
        "chat_template": text("Empty: there is none."),
        "chat_template_note": text(),
        "build_info": text(),
        "version": text(),
        "power_percent": number(),
        "steering": {"type": ["object", "null"]},
        "uptime_s": number(),
        "requests": members({"waiting": whole(), "running": whole(), "max_waiting": whole()}),
        "prefix_memory": {"type": ["object", "null"]},
        "disk": {"type": ["object", "null"]},
    },
    "What runs here, in llama.cpp's words and ours.",
    ("default_generation_settings", "total_slots", "chat_template", "build_info", "requests"),
)

ANSWERS: Mapping[str, Schema] = {
    "ChatAnswer": members(
        {"id": text(), "object": word("", "chat.completion"), "model": text(), "choices": _CHOICES, "usage": _USAGE},
        "A whole answer.",
        ("id", "object", "created", "model", "choices", "usage"),
    ),
    "CompletionAnswer": members(
        {"id": text(), "object": word("", "text_completion"), "model": text(), "choices": _CHOICES, "usage": _USAGE},
        "A whole answer.",
        ("id", "object", "created", "model", "choices", "usage"),
    ),
    "ResponsesAnswer": members(
        {"id": text(), "object": word("", "response"), "status": text(), "output": array(_OBJECT)},
        "A whole answer.",
        ("id", "object", "status", "model", "output", "usage"),
    ),
    "MessagesAnswer": members(
        {
            "id": text(),
            "type": word("", "message"),
            "role": word("", "assistant"),
            "content": array(_OBJECT),
        },
        "A whole answer.",
        ("id", "type", "role", "model", "content", "stop_reason", "usage"),
    ),
    "TokenCount": members({"input_tokens": whole(minimum=0)}, "The prompt's length.", ("input_tokens",)),
    "ResponsesTokenCount": members(
        {"object": word("", "response.input_tokens"), "input_tokens": whole(minimum=0)},
        "The prompt's length.",
        ("object", "input_tokens"),
    ),
    "OpenAIError": _OPENAI_ERROR,
    "AnthropicError": _ANTHROPIC_ERROR,
    "Model": _MODEL,
    "ModelList": members(
        {"object": word("", "list"), "data": array(reference("Model"))}, "One model.", ("object", "data", "has_more")
    ),
    "Health": members({"status": word("", "ok")}, "It runs.", ("status",)),
    "Props": _PROPS,
}
"""By their names among the document's components."""
