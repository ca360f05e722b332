"""Random Chat Completions bodies: what clients send, and what they should not."""

from typing import Any

from hypothesis import strategies as st

from fakes.conversation_dumps import arguments, json_values, schemas, texts

MODELS = ["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"]
IDS = ["c1", "c2", "c10", "", "é", "call_00_ET_abc", "call_01_xyz", "call_é_ET_", "toolu_ET_1"]
PNG = "data:image/png;base64,iVBORw0KGgo="
URLS = [
    *(PNG, PNG, "data:image/webp;base64,AAAA", "DATA:Image/GIF;base64,AA==", "https://x/y.png", "httpfoo", "HTTP://x"),
    *("data:image/tiff;base64,AAAA", "data:image/png;base64,A", "data:image/png,AA", "ftp:x", "", "data:;base64,AAAA"),
]
NAMES = ["run", "pick", "note_add", "a-b", "x" * 128, "x" * 129, "", "a b", "é", "json"]
SCHEMAS: list[Any] = [
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0}}, "required": ["a"], "$defs": {}},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}, "required": ["a"]},
    {"type": "object", "properties": {}, "additionalProperties": True},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
    {"type": "object", "required": "a"},
    {"type": "string"},
    {"type": "nope"},
    *({}, True, [], 5, None),
]

contents = st.one_of(texts, st.sampled_from(["json", "Answer in JSON."]))
addresses = st.fixed_dictionaries(
    {"url": st.sampled_from(URLS)}, optional={"detail": st.sampled_from(["low", "high", "original", "auto", None])}
)
text_blocks = st.fixed_dictionaries({"type": st.just("text"), "text": contents})
image_blocks = st.fixed_dictionaries({"type": st.just("image_url"), "image_url": addresses})
file_blocks = st.fixed_dictionaries(
    {"type": st.just("file")},
    optional={"file_data": st.sampled_from(URLS), "file_id": st.just("f"), "filename": texts},
)
blocks = st.lists(st.one_of(text_blocks, text_blocks, image_blocks, file_blocks), max_size=3)
bodies_of_text = st.one_of(contents, contents, blocks)


def message(role: str, members: dict[str, Any], **extra: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"role": st.just(role), **members}, optional={"name": st.none() | texts, **extra})


ids = st.sampled_from(IDS)
calls = st.fixed_dictionaries(
    {
        "id": ids,
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": st.one_of(st.sampled_from(NAMES), texts), "arguments": arguments}),
    }
)
assistants = message(
    "assistant",
    {"content": st.one_of(contents, contents, st.lists(text_blocks, max_size=2), blocks)},
    reasoning_content=st.one_of(st.none(), st.just(""), contents),
    prefix=st.sampled_from([None, False, False, True]),
)
results = message("tool", {"content": bodies_of_text, "tool_call_id": ids})
users = message("user", {"content": bodies_of_text})
others = st.one_of(
    users,
    users,
    message("system", {"content": bodies_of_text}),
    assistants,
    st.fixed_dictionaries({"role": st.just("latest_reminder"), "content": contents}),
)


@st.composite
def tool_rounds(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Calls and their results: mostly one for each in any order, sometimes too few, too many or wrong ones."""
    made = draw(st.lists(calls, min_size=1, max_size=3, unique_by=lambda call: str(call["id"])))
    answers = [draw(results) | {"tool_call_id": call["id"]} for call in made]
    match draw(st.sampled_from(["right"] * 6 + ["fewer", "more", "twice", "none"])):
        case "fewer":
            answers = answers[1:]
        case "more":
            answers.append(draw(results))
        case "twice":
            made = [*made, made[0]]
        case "none":
            made = []
    asked = draw(assistants) | {"tool_calls": made}
    if draw(st.booleans()):
        asked |= {"content": None}
    return [asked, *draw(st.permutations(answers))]


histories = st.lists(st.one_of(others.map(lambda one: [one]), tool_rounds()), min_size=1, max_size=5).map(
    lambda groups: [one for group in groups for one in group]
)


@st.composite
def with_prefix(draw: st.DrawFn) -> list[dict[str, Any]]:
    """A history that ends in the beginning of an answer."""
    return [*draw(histories), draw(assistants) | {"content": draw(contents), "prefix": True}]


definitions = st.fixed_dictionaries(
    {"name": st.sampled_from(NAMES)},
    optional={
        "description": st.none() | texts,
        "parameters": st.one_of(st.sampled_from(SCHEMAS), st.sampled_from(SCHEMAS), schemas),
        "strict": st.sampled_from([None, False, True]),
    },
)
good_definitions = st.fixed_dictionaries(
    {"name": st.sampled_from(NAMES[:3]), "parameters": st.sampled_from(SCHEMAS[:4])},
    optional={"description": texts},
)
strict_definitions = good_definitions.map(lambda definition: definition | {"strict": True})


def tools_of(functions: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    wrapped = st.fixed_dictionaries({"type": st.just("function"), "function": functions})
    return st.lists(wrapped, max_size=3)


unique_tools = st.lists(good_definitions, max_size=3, unique_by=lambda one: str(one["name"])).map(
    lambda chosen: [{"type": "function", "function": one} for one in chosen]
)
tools = st.one_of(unique_tools, tools_of(good_definitions), tools_of(strict_definitions), tools_of(definitions))
choices = st.one_of(
    st.sampled_from(["none", "auto", "required", "any", None]),
    st.sampled_from(NAMES[:5]).map(lambda name: {"type": "function", "function": {"name": name}}),
)
formats = st.one_of(
    st.sampled_from([{"type": "text"}, {"type": "json_object"}, {"type": "nope"}, None]),
    texts.map(lambda text: {"type": "regex", "regex": text}),
    st.builds(
        lambda schema, rest: {"type": "json_schema", "json_schema": {"schema": schema, **rest}},
        st.one_of(st.sampled_from(SCHEMAS), schemas, json_values),
        st.fixed_dictionaries({}, optional={"strict": st.sampled_from([None, False, True]), "name": texts}),
    ),
)
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "stream": st.sampled_from([None, False, True]),
    "stream_options": st.sampled_from([None, {}, {"include_usage": True}, {"include_usage": None}]),
    "temperature": st.sampled_from([None, 0, 0.3, 1, 2, 2.0000001, -0.0, -1e-9, 1.00000001, 5]),
    "top_p": st.sampled_from([None, 0, 1e-46, 0.5, 0.95, 0.97, 1, 1.00000001, 1.1, 1e300]),
    "max_tokens": st.sampled_from([None, 0, 1, 100, 393216, 393217, 2**32 - 1]),
    "n": st.sampled_from([None, 0, 1, 1, 1, 2, 255]),
    "stop": st.one_of(st.none(), texts, st.lists(texts, max_size=3), st.just(["x"] * 17), st.just([])),
    "seed": st.sampled_from([None, 0, 7, 2**63 - 1, 2**63]),
    "logprobs": st.sampled_from([None, False, True]),
    "top_logprobs": st.sampled_from([None, 0, 5, 20, 21]),
    "presence_penalty": st.sampled_from([None, -2, 0, 2, 2.1]),
    "frequency_penalty": st.sampled_from([None, -2.0, 0.5, -3]),
    "tools": st.one_of(st.none(), tools),
    "tool_choice": choices,
    "parallel_tool_calls": st.sampled_from([None, True, False]),
    "response_format": formats,
    "thinking": st.sampled_from(
        [None, {"type": "enabled"}, {"type": "disabled"}, {"type": "adaptive", "budget_tokens": 5}]
    ),
    "reasoning_effort": st.sampled_from([None, "none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"]),
    "max_completion_tokens": st.just(5),
    "user": texts,
}
models = st.sampled_from([*MODELS * 12, "alias", "gpt"])


@st.composite
def some_options(draw: st.DrawFn) -> dict[str, Any]:
    """A few members, so that most requests get past most checks."""
    names = draw(st.lists(st.sampled_from(list(OPTIONS)), max_size=5, unique=True))
    return {name: draw(OPTIONS[name]) for name in names}


chat_requests = st.builds(
    lambda model, messages, options: {"model": model, "messages": messages, **options},
    models,
    st.one_of(histories, with_prefix()),
    some_options(),
)
"""Bodies that are right as far as types go, but for an odd one."""

conversion_options = st.fixed_dictionaries(
    {},
    optional={
        "default_thinking_mode": st.booleans(),
        "reasoning_content_behavior": st.sampled_from(["FillEmpty", "Reject"]),
        "thinking_max_tokens_upper_bound": st.sampled_from([50, 100_000]),
        "non_thinking_max_tokens_upper_bound": st.sampled_from([50, 100_000]),
        "model_aliases": st.sampled_from([{"alias": "V4"}, {"alias": "V4.1", "a": "V4"}]),
    },
)
