"""Random Responses bodies: items in any order, groups, namespaces, searches for tools, and what should not come."""

import json
from typing import Any

from hypothesis import strategies as st

from fakes.chat_requests import MODELS, SCHEMAS, URLS, contents
from fakes.conversation_dumps import arguments, json_values, schemas, texts

IDS = ["c1", "c2", "c10", "B", "", "é", "call_00_ET_abc", "call_01_xyz"]
NAMES = ["run", "pick", "a-b", "n__run", "json", "x" * 128]
BAD_NAMES = ["", "a b", "é", "x" * 129, "n::run"]
NAMESPACES = ["n", "m", "n__run", "a-b"]
details = st.sampled_from(["low", "high", "original", "auto", None])
ids = st.sampled_from(IDS)

text_blocks = st.fixed_dictionaries({"type": st.sampled_from(["input_text", "output_text"]), "text": contents})
input_texts = st.fixed_dictionaries({"type": st.just("input_text"), "text": contents})
images = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("input_image"), "image_url": st.sampled_from(URLS[:5])}, optional={"detail": details}
    ),
    st.fixed_dictionaries(
        {"type": st.just("input_image")},
        optional={
            "image_url": st.sampled_from([None, *URLS]),
            "file_id": st.sampled_from([None, None, "", "f"]),
            "detail": details,
        },
    ),
)
files = st.fixed_dictionaries(
    {"type": st.just("input_file")}, optional={"file_id": st.just("f"), "file_data": st.sampled_from(URLS)}
)
said = st.one_of(contents, contents, st.lists(st.one_of(text_blocks, text_blocks, images, files), max_size=3))
given_back = st.one_of(contents, contents, st.lists(st.one_of(input_texts, input_texts, images, files), max_size=3))

names = st.sampled_from([*NAMES * 4, *BAD_NAMES])
functions = st.fixed_dictionaries(
    {"type": st.just("function"), "name": names},
    optional={
        "description": st.none() | texts,
        "parameters": st.one_of(st.sampled_from(SCHEMAS[:4]), st.sampled_from(SCHEMAS), schemas),
        "strict": st.sampled_from([None, False, True]),
        "defer_loading": st.booleans(),
    },
)
good_functions = st.fixed_dictionaries(
    {"type": st.just("function"), "name": st.sampled_from(NAMES)},
    optional={"description": st.none() | texts, "parameters": st.sampled_from(SCHEMAS[:3])},
)
customs = st.fixed_dictionaries(
    {"type": st.just("custom"), "name": st.sampled_from(["apply_patch"] * 6 + ["zz", ""])},
    optional={"description": texts, "format": json_values},
)
locations = st.fixed_dictionaries(
    {}, optional={name: st.none() | texts for name in ("city", "country", "region", "timezone", "type")}
)
searches_of_the_web = st.fixed_dictionaries(
    {"type": st.sampled_from(["web_search", "web_search_2025_08_26"])},
    optional={"search_context_size": st.sampled_from([None, "low", "high"]), "user_location": st.none() | locations},
)
searches_of_tools = st.fixed_dictionaries(
    {"type": st.just("tool_search")},
    optional={
        "execution": st.sampled_from(["client", "client", "server", None]),
        "description": st.none() | texts,
        "parameters": st.sampled_from([None, *SCHEMAS]),
    },
)


def namespaces_of(members: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "type": st.just("namespace"),
            "name": st.sampled_from(NAMESPACES * 5 + BAD_NAMES),
            "tools": st.lists(members, max_size=3),
        },
        optional={"description": st.none() | texts},
    )


good_namespaces = st.fixed_dictionaries(
    {
        "type": st.just("namespace"),
        "name": st.sampled_from(NAMESPACES),
        "tools": st.lists(good_functions, max_size=3, unique_by=lambda one: str(one["name"])),
    },
    optional={"description": st.none() | texts},
)
unknown_tools = st.sampled_from([{"type": "web_search_preview"}, {"type": "local_shell", "name": 5}])
good_tools = st.one_of(good_functions, good_functions, good_namespaces, good_namespaces)
any_tools = st.one_of(
    good_tools,
    good_tools,
    functions,
    customs,
    namespaces_of(st.one_of(good_functions, good_functions, functions, customs)),
    searches_of_tools,
    searches_of_the_web,
    unknown_tools,
)


def with_own_names(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of plain tools of one name only the first."""
    seen: set[Any] = set()
    kept = []
    for tool in tools:
        if tool["type"] != "function" or tool["name"] not in seen:
            kept.append(tool)
        if tool["type"] == "function":
            seen.add(tool["name"])
    return kept


tools = st.one_of(st.lists(good_tools, max_size=4).map(with_own_names), st.lists(any_tools, max_size=4))
found_tools = st.one_of(
    st.lists(good_namespaces, max_size=2),
    st.lists(good_tools, max_size=2).map(with_own_names),
    st.lists(any_tools, max_size=2),
)

messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "user", "user", "system", "developer"]), "content": said},
    optional={"type": st.just("message"), "id": texts, "status": st.just("completed")},
)
answers = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.one_of(contents, st.lists(text_blocks, max_size=2), said)},
    optional={"type": st.just("message"), "phase": texts},
)
thoughts = st.fixed_dictionaries(
    {"type": st.just("reasoning")},
    optional={
        "content": st.none() | st.lists(st.fixed_dictionaries({"type": st.just("reasoning_text"), "text": contents})),
        "summary": st.just([{"type": "summary_text", "text": "s"}]),
        "encrypted_content": st.none() | texts,
        "id": texts,
    },
)
function_calls = st.fixed_dictionaries(
    {"type": st.just("function_call"), "call_id": ids, "name": st.sampled_from(NAMES), "arguments": arguments},
    optional={"namespace": st.sampled_from([None, *NAMESPACES]), "id": texts},
)
custom_calls = st.fixed_dictionaries(
    {"type": st.just("custom_tool_call"), "call_id": ids, "name": st.just("apply_patch"), "input": texts},
    optional={"namespace": st.sampled_from(NAMESPACES)},
)
search_calls = st.fixed_dictionaries(
    {
        "type": st.just("tool_search_call"),
        "call_id": ids,
        "arguments": st.dictionaries(texts, json_values, max_size=2),
    },
    optional={"execution": st.sampled_from(["client", "server", None])},
)
calls = st.one_of(function_calls, function_calls, custom_calls, search_calls)
outputs = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("function_call_output"), "output": given_back}, optional={"call_id": st.none() | ids}
    ),
    st.fixed_dictionaries(
        {"type": st.just("custom_tool_call_output"), "call_id": ids}, optional={"output": st.none() | given_back}
    ),
    st.fixed_dictionaries({"type": st.just("tool_search_output"), "call_id": ids, "tools": found_tools}),
)
search_outputs = st.fixed_dictionaries(
    {"type": st.just("tool_search_output"), "call_id": st.none(), "tools": found_tools}
)
hosted = st.sampled_from([{"type": "web_search_call"}, {"type": "item_reference", "id": "x"}, {"type": "compaction"}])


@st.composite
def answered(draw: st.DrawFn, call: dict[str, Any]) -> dict[str, Any]:
    """A result of a kind that mostly fits the call."""
    is_search = call["type"] == "tool_search_call"
    result = draw(search_outputs if is_search and draw(st.integers(0, 5)) else outputs)
    return result | {"call_id": call["call_id"]}


@st.composite
def rounds(draw: st.DrawFn) -> list[dict[str, Any]]:
    """What one answer of the model said, called and was given, mostly complete."""
    made = draw(st.lists(calls, min_size=1, max_size=3, unique_by=lambda call: str(call["call_id"])))
    results = [draw(answered(call)) for call in made]
    begun = draw(st.lists(st.one_of(thoughts, answers, hosted), max_size=3))
    match draw(st.sampled_from(["right"] * 8 + ["fewer", "more", "mixed", "late"])):
        case "fewer":
            results = results[1:]
        case "more":
            results.append(draw(outputs))
        case "mixed":
            return [*begun, *draw(st.permutations([*made, *results]))]
        case "late":
            results.insert(0, draw(st.one_of(thoughts, answers, hosted, messages)))
    return [*begun, *made, *draw(st.permutations(results))]


singles = st.one_of(messages, messages, answers, thoughts, hosted, calls, outputs).map(lambda item: [item])
plain_singles = st.one_of(messages, answers, thoughts, hosted).map(lambda item: [item])


def with_own_ids(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same ids for the same calls, but other ones in each round, so that most inputs are in order."""
    seen: dict[str, int] = {}
    renamed = []
    for item in items:
        call_id = item.get("call_id")
        if isinstance(call_id, str) and call_id:
            is_call = not str(item["type"]).endswith("_output")
            seen[call_id] = seen.get(call_id, -1) + is_call if is_call else seen.get(call_id, 0)
            item = item | {"call_id": call_id + str(seen[call_id]) if seen[call_id] else call_id}
        renamed.append(item)
    return renamed


def joined(groups: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [item for group in groups for item in group]


inputs = st.one_of(
    contents,
    st.lists(st.one_of(plain_singles, rounds()), min_size=1, max_size=5).map(joined).map(with_own_ids),
    st.lists(st.one_of(plain_singles, rounds()), min_size=1, max_size=5).map(joined).map(with_own_ids),
    st.lists(st.one_of(singles, rounds()), max_size=5).map(joined),
)
CHOSEN = [*NAMES, "apply_patch", "tool_search", "n::run", "n__run_1", "n::run_1", "m::pick", "n__pick", "zz"]
choices = st.one_of(
    st.sampled_from(["none", "auto", "required", "any", None]),
    st.builds(
        lambda kind, name: {"type": kind, "name": name},
        st.sampled_from(["function", "function", "custom"]),
        st.sampled_from(CHOSEN),
    ),
    st.sampled_from([{"type": "web_search"}, {"type": "web_search_2025_08_26"}, {"type": "allowed_tools"}]),
)
formats = st.one_of(
    st.sampled_from([{"type": "text"}, {"type": "json_object"}, {"type": "json_object"}, {"type": "regex"}]),
    st.builds(
        lambda schema, rest: {"type": "json_schema", "name": "f", "schema": schema, **rest},
        st.one_of(st.sampled_from(SCHEMAS), schemas, json_values),
        st.fixed_dictionaries({}, optional={"strict": st.sampled_from([None, False, True]), "description": texts}),
    ),
)
efforts = st.sampled_from([None, "none", "none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"])
summaries = st.sampled_from([None, "auto", "concise", "detailed"])
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "instructions": st.none() | contents,
    "stream": st.sampled_from([None, False, True]),
    "temperature": st.sampled_from([None, 0, 0.3, 1, 2, 2.0000001, -0.0, -1e-9, 1.00000001, 5]),
    "top_p": st.sampled_from([None, 0, 1e-46, 0.5, 0.95, 0.97, 1, 1.00000001, 1.1, 1e300]),
    "max_output_tokens": st.sampled_from([None, 0, 1, 100, 393216, 393217, 2**32 - 1]),
    "top_logprobs": st.sampled_from([None, 0, 5, 20, 21]),
    "tools": st.none() | tools,
    "tool_choice": choices,
    "text": st.fixed_dictionaries(
        {}, optional={"format": formats, "verbosity": st.sampled_from([None, "low", "medium", "high"])}
    ),
    "reasoning": st.fixed_dictionaries(
        {}, optional={"effort": efforts, "summary": summaries, "generate_summary": summaries}
    ),
    "user": st.none() | texts,
    "previous_response_id": st.just("resp_1"),
    "store": st.booleans(),
}
OFTEN = ["tools", "tools", "tools", "tool_choice", "reasoning", *OPTIONS]


@st.composite
def some_options(draw: st.DrawFn) -> dict[str, Any]:
    """A few members, so that most requests get past most checks."""
    chosen = draw(st.lists(st.sampled_from(OFTEN), max_size=6, unique=True))
    return {name: draw(OPTIONS[name]) for name in dict.fromkeys(chosen)}


models = st.sampled_from([*MODELS * 3, MODELS[1], MODELS[1], "gpt"])
responses_requests = st.builds(
    lambda model, given, options: {"model": model, **given, **options},
    models,
    st.one_of(inputs, inputs, inputs, inputs).map(lambda value: {"input": value}) | st.just({}),
    some_options(),
)
"""Bodies that are right as far as types go, but for an odd one."""

conversion_options = st.fixed_dictionaries(
    {},
    optional={
        "default_thinking_mode": st.booleans(),
        "reasoning_content_behavior": st.sampled_from(["FillEmpty", "Reject"]),
        "responses_web_search": st.sampled_from(["Drop", "Reject"]),
        "thinking_max_tokens_upper_bound": st.sampled_from([50, 100_000]),
        "non_thinking_max_tokens_upper_bound": st.sampled_from([50, 100_000]),
    },
)


def as_text(body: dict[str, Any]) -> str:
    """The body as JSON text."""
    return json.dumps(body)
