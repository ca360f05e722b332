"""The grammars of custom tools' inputs, as OpenAI's clients declare them: nested in Chat, flat in Responses.

Promises: the same words as custom_tools.py tells the model. Does not know whether a grammar can be enforced.
"""

from typing import Any

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.call_grammar import InputForm
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.notes import shortened

SYNTAXES = ("lark", "regex")


def input_forms(body: Json) -> dict[str, InputForm]:
    """By the tool's name; RefusedRequest for a syntax that there is not."""
    tools = body.get("tools") if isinstance(body, dict) else None
    found: dict[str, InputForm] = {}
    for number, tool in enumerate(tools if isinstance(tools, list) else ()):
        if not isinstance(tool, dict) or tool.get("type") != "custom":
            continue
        declared = tool.get("custom")
        custom: dict[str, Any] = declared if isinstance(declared, dict) else tool
        path = f"tools[{number}].format" if custom is tool else f"tools[{number}].custom.format"
        form = _form(custom.get("format"), path)
        if form is not None and isinstance(custom.get("name"), str):
            found[custom["name"]] = form
    return found


def _form(form: Json, path: str) -> InputForm | None:
    if not isinstance(form, dict) or form.get("type") != "grammar":
        return None
    nested = form.get("grammar")
    grammar = nested if isinstance(nested, dict) else form
    syntax, definition = grammar.get("syntax"), grammar.get("definition")
    if not isinstance(definition, str):
        return None
    if syntax not in SYNTAXES:
        raise RefusedRequest(f"{path}: expected the syntax lark or regex, got {shortened(syntax)}")
    return InputForm("lark" if syntax == "lark" else "regex", definition)
