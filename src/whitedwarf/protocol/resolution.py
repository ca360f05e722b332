"""What the dialects decide alike: which model, thinking or not, how to sample, how long, in which form.

Promises: the official library's rules and texts (spec/recipe.md 3 and 6) under the official policy; under the local one
values out of range are brought into it where that has one clear meaning. Does not know any dialect's fields.
"""

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.options import Constraint, ConstraintKind
from whitedwarf.conversation.response_format import JsonObject, JsonSchema, PlainText, Regex
from whitedwarf.conversation.thinking import ReasoningEffort
from whitedwarf.conversation.tools import ToolChoice, ToolDefinition
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.json_style import FloatStyle, Spacing, dumps
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.protocol.failures import ContextLengthExceeded, RefusedRequest
from whitedwarf.protocol.fields import round_to_single
from whitedwarf.protocol.policy import Policy

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max")
_EFFORT_MEANING = {
    None: ReasoningEffort.HIGH,
    "none": ReasoningEffort.HIGH,
    "minimal": ReasoningEffort.LOW,
    "low": ReasoningEffort.LOW,
    "medium": ReasoningEffort.HIGH,
    "high": ReasoningEffort.HIGH,
    "xhigh": ReasoningEffort.XHIGH,
    "ultra": ReasoningEffort.MAX,
    "max": ReasoningEffort.MAX,
}
_TOOLS_TOP_P = round_to_single(0.95)
_DEFAULT_TOKENS, _THINKING_TOKENS, _MAX_EFFORT_TOKENS = 8_192, 65_536, 131_072
MAX_STOP_STRINGS = 16
MOST_LOCAL_STOP_STRINGS = 256


def version_of(model: str, policy: Policy) -> ModelVersion:
    """The encoding that this model name means."""
    version = policy.models.get(model, policy.other_models)
    if version is None:
        names = ", ".join(sorted(policy.models))
        raise RefusedRequest(f"The supported API model names are {names}, but you passed {model}.")
    return version


def resolve_thinking(explicit: bool | None, effort: str | None, policy: Policy) -> tuple[bool, ReasoningEffort | None]:
    """Whether the model thinks, and how hard; what the request says outright beats what its effort implies."""
    if explicit is not None:
        is_thinking = explicit
    elif effort is not None:
        is_thinking = effort != "none"
    else:
        is_thinking = policy.thinks_by_default
    return is_thinking, _EFFORT_MEANING[effort] if is_thinking else None


def check_temperature(temperature: float | None) -> None:
    """Refuse what no sampler takes."""
    if temperature is not None and not 0 <= temperature <= 2:
        raise RefusedRequest("Invalid temperature value, the valid range of temperature is [0, 2]")


def check_top_p(top_p: float | None) -> None:
    """Refuse what no sampler takes."""
    if top_p is not None and not 0 < top_p <= 1:
        raise RefusedRequest("Invalid top_p value, the valid range of top_p is (0, 1.0]")


def resolved_temperature(requested: float | None, *, is_thinking: bool) -> float:
    """Thinking always samples at 1."""
    return 1.0 if is_thinking or requested is None else requested


def resolved_top_p(requested: float | None, version: ModelVersion, conversation: Conversation, policy: Policy) -> float:
    """The official choice; the local policy keeps a request's own value wherever the model does not think."""
    asked = 1.0 if requested is None else requested
    if conversation.is_thinking:
        if version is ModelVersion.V41:
            return max(asked, _TOOLS_TOP_P)
        return _TOOLS_TOP_P if conversation.offers_tools else 1.0
    return 1.0 if version is ModelVersion.V41 and policy.is_official else asked


def resolve_max_tokens(
    requested: int | None, prompt_tokens: int, context_length: int, *, is_thinking: bool, effort: ReasoningEffort | None
) -> int:
    """How many tokens the answer may have; raises ContextLengthExceeded where prompt and answer do not fit."""
    if requested is not None:
        if prompt_tokens + requested > context_length:
            raise _overflow(prompt_tokens, requested, context_length)
        return requested
    if prompt_tokens > context_length:
        raise _overflow(prompt_tokens, 0, context_length)
    return max(1, min(_default_tokens(is_thinking, effort), context_length - prompt_tokens))


def _default_tokens(is_thinking: bool, effort: ReasoningEffort | None) -> int:
    if not is_thinking:
        return _DEFAULT_TOKENS
    return _MAX_EFFORT_TOKENS if effort is ReasoningEffort.MAX else _THINKING_TOKENS


def _overflow(prompt_tokens: int, requested: int, context_length: int) -> ContextLengthExceeded:
    return ContextLengthExceeded(
        f"This model's maximum context length is {context_length} tokens. However, you requested "
        f"{prompt_tokens + requested} tokens ({prompt_tokens} in the messages, {requested} in the completion). "
        "Please reduce the length of the messages or completion.",
        prompt_tokens,
        context_length,
    )


def check_max_tokens(requested: int | None, bound: int) -> None:
    """Refuse an answer of no tokens, or of more than the bound."""
    if requested is not None and not 1 <= requested <= bound:
        raise RefusedRequest(f"Invalid max_tokens value, the valid range of max_tokens is [1, {bound}]")


def checked_stop_strings(stop: str | list[str] | None, policy: Policy) -> tuple[str, ...]:
    """The strings that end an answer. The local policy leaves out empty ones instead of refusing them, takes more of
    them, but not any number: every token of the answer is looked at for all of them.
    """
    if stop is None:
        return ()
    strings = [stop] if isinstance(stop, str) else stop
    if not policy.is_official:
        return _some(tuple(dict.fromkeys(filter(None, strings))))
    if len(strings) > MAX_STOP_STRINGS:
        raise RefusedRequest(f"Stop string array too long: {len(strings)}")
    for index, text in enumerate(strings):
        if not text:
            path = "'stop'" if isinstance(stop, str) else f"'stop[{index}]'"
            raise RefusedRequest(
                f"Invalid {path}: empty string. Expected a string with minimum length 1, "
                "but got an empty string instead."
            )
    return tuple(strings)


def _some(strings: tuple[str, ...]) -> tuple[str, ...]:
    if len(strings) > MOST_LOCAL_STOP_STRINGS:
        raise RefusedRequest(f"stop: expected at most {MOST_LOCAL_STOP_STRINGS} strings, got {len(strings)}")
    return strings


def resolve_constraint(
    conversation: Conversation,
    strict_schema: Json = None,
    *,
    must_call: bool = False,
    memory: RecipeMemory | None = None,
) -> Constraint | None:
    """The form to enforce: tools win over a response format. `strict_schema` replaces the schema that is rendered.

    `must_call`: a tool has to be called even if the conversation does not say so (see tool_choice.py).
    """
    if conversation.offers_tools:
        is_required = must_call or conversation.tool_choice is ToolChoice.REQUIRED
        kind = ConstraintKind.TOOL_CALL_REQUIRED if is_required else ConstraintKind.TOOL_CALL
        return Constraint(kind, _listing(conversation.tools, memory))
    match conversation.response_format:
        case PlainText():
            return None
        case JsonObject():
            return Constraint(ConstraintKind.JSON, "")
        case JsonSchema(schema):
            return Constraint(ConstraintKind.JSON, compact(schema if strict_schema is None else strict_schema))
        case Regex(pattern):
            return Constraint(ConstraintKind.REGEX, pattern)


def _listing(tools: tuple[ToolDefinition, ...], memory: RecipeMemory | None) -> str:
    def write() -> str:
        return compact([_tool_json(tool) for tool in tools])

    return write() if memory is None else memory.tool_text(tools, "constraint", write)


def compact(value: Json) -> str:
    """JSON without blanks, floats as V4 writes them: how constraints and tool listings are spelt."""
    return dumps(value, FloatStyle.V4, Spacing.COMPACT)


def _tool_json(tool: ToolDefinition) -> Json:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.is_strict,
    }
    if tool.is_deferred:
        return {"type": "function", "function": function, "defer_loading": True}
    return {"type": "function", "function": function}
