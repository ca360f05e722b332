"""Custom tools, which take plain text, as the model sees them: functions of one string named `input`.

Promises: any custom tool of a client has such a form, and earlier calls of it too. A grammar is told to the model in
the description. The way back, from arguments to plain text, is custom_input.py.
"""

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.resolution import compact


def custom_parameters() -> dict[str, Json]:
    """The JSON Schema of every custom tool's arguments."""
    return {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }


def custom_description(description: str | None, form: Json) -> str | None:
    """The tool's description, with the grammar of its `format` (nested as in Chat or flat as in Responses)."""
    grammar = _grammar(form)
    if grammar is None:
        return description
    return f"{description or ''}\n\n{grammar}".lstrip("\n")


def custom_arguments(text: str) -> str:
    """The arguments of a call whose input was `text`."""
    return compact({"input": text})


def _grammar(form: Json) -> str | None:
    if not isinstance(form, dict) or form.get("type") != "grammar":
        return None
    nested = form.get("grammar")
    grammar = nested if isinstance(nested, dict) else form
    syntax, definition = grammar.get("syntax"), grammar.get("definition")
    if not isinstance(definition, str):
        return None
    kind = f"{syntax} grammar" if isinstance(syntax, str) else "grammar"
    return f"`input` must follow this {kind}:\n{definition}"
