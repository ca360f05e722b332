"""Random Messages requests, made to hurt: valid ones, slightly wrong ones, and what no client would send."""

from typing import Any

from hypothesis import strategies as st

from fakes.conversation_dumps import json_values, schemas, texts

MODELS = ["DeepSeek-V4.1-Flash", "DeepSeek-V4.1-Flash", "DeepSeek-V4-Pro", "DeepSeek-V4-Pro", "deepseek-v4", ""]
IDS = ["1", "2", "3", "call_00_ET_abc", "toolu_ET_", "é", ""]
NAMES = ["f", "g", "get_tide", "a-b", "f", "", "sp ace", "web_search", "n" * 129]
GOOD_NAMES = ["f", "g", "get_tide", "a-b"]
MEDIA = ["image/png", "image/jpg", "image/webp", "image/PNG", "application/pdf"]
BASE64 = ["", "AAAA", "AAA=", "AA==", "AAA", "@", "AA AA", "iVBORw0KGgo="]
URLS = ["http://x/y.png", "HTTPS://é", "httpx", "ftp:x", "", 'q"uo\n', "data:image/png;base64,AAAA"]

ids = st.sampled_from(IDS)
good_names = st.sampled_from(GOOD_NAMES)
names = st.one_of(good_names, st.sampled_from(NAMES))


def block(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just(kind), **fields}, optional={"cache_control": st.just({"type": "ephemeral"})}
    )


base64_sources = block("base64", media_type=st.sampled_from(MEDIA), data=st.sampled_from(BASE64))
sources = st.one_of(base64_sources, block("url", url=st.sampled_from(URLS)), block("file", file_id=st.just("file_1")))
good_sources = st.just({"type": "base64", "media_type": "image/png", "data": "AAAA"})
text_blocks = block("text", text=texts)
images = block("image", source=st.one_of(good_sources, good_sources, sources))
documents = block(
    "document", source=st.fixed_dictionaries({}, optional={"media_type": st.none() | texts, "type": texts})
)
references = block("tool_reference", tool_name=names)
result_contents = st.one_of(
    texts,
    st.none(),
    st.lists(st.one_of(text_blocks, text_blocks, images, documents, references), max_size=3),
)
results = block("tool_result", tool_use_id=ids, content=result_contents)
uses = block("tool_use", id=ids, name=names, input=json_values)
thoughts = block("thinking", thinking=texts, signature=st.none() | texts)
server_uses = block("server_tool_use", id=ids, name=texts, input=json_values)
search_results = block("web_search_tool_result", tool_use_id=ids, content=json_values)
additions = block("tool_addition", tool=st.fixed_dictionaries({"type": st.just("tool_reference"), "name": names}))
any_blocks = st.one_of(
    text_blocks, images, documents, results, uses, thoughts, server_uses, search_results, additions, references
)


def message(role: str, *usual: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Content that suits the role, and now and then what does not."""
    blocks = st.lists(st.one_of(*usual, *usual, *usual, any_blocks), max_size=4)
    return st.fixed_dictionaries({"role": st.just(role), "content": st.one_of(texts, st.lists(usual[0]), blocks)})


users = message("user", text_blocks, images, documents)
assistants = message("assistant", text_blocks, thoughts)
systems = message("system", text_blocks, additions)


@st.composite
def rounds(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Calls and their results, in any order, mostly complete."""
    said = draw(st.lists(st.one_of(text_blocks, thoughts), max_size=2))
    call_ids = draw(st.lists(ids, min_size=1, max_size=3, unique=True))
    calls = [draw(uses) | {"id": call_id} for call_id in call_ids]
    answers = [draw(results) | {"tool_use_id": call_id} for call_id in draw(st.permutations(call_ids))]
    spoilt = draw(st.integers(0, 11))
    if spoilt == 0:
        answers.insert(draw(st.integers(0, len(answers))), draw(any_blocks))
    elif spoilt == 1:
        del answers[draw(st.integers(0, len(answers) - 1))]
    elif spoilt == 2:
        calls.insert(draw(st.integers(0, len(calls))), draw(any_blocks))
    after = draw(st.lists(text_blocks, max_size=1))
    return [{"role": "assistant", "content": said + calls}, {"role": "user", "content": answers + after}]


singles = st.one_of(users, users, assistants, systems).map(lambda one: [one])
conversations = st.lists(st.one_of(singles, rounds()), max_size=5).map(
    lambda groups: [one for group in groups for one in group]
)

object_schemas = st.one_of(
    st.just({"type": "object"}),
    st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.just({"a": {"type": "number", "default": 1e-7}})}
    ),
)
functions = st.fixed_dictionaries(
    {"name": names, "input_schema": object_schemas},
    optional={"description": st.none() | texts, "defer_loading": st.none() | st.booleans(), "strict": st.booleans()},
)
odd_functions = st.fixed_dictionaries(
    {"name": names}, optional={"input_schema": schemas, "type": st.sampled_from(["custom", "", None, 5])}
)
server_tools = st.fixed_dictionaries(
    {"type": st.sampled_from(["web_search_20250305", "web_search_20260209", "bash_20250124"])},
    optional={"name": names},
)
good_functions = st.builds(lambda tool, name: tool | {"name": name}, functions, good_names)
tools = st.one_of(
    st.lists(good_functions, max_size=4, unique_by=lambda tool: tool["name"]),
    st.lists(st.one_of(functions, functions, odd_functions, server_tools), max_size=4),
)
choices = st.one_of(
    st.sampled_from([{"type": "auto"}, {"type": "any"}, {"type": "none"}, {"type": "tool"}, {"type": "required"}]),
    names.map(lambda name: {"type": "tool", "name": name, "disable_parallel_tool_use": True}),
)
systems_prompts = st.one_of(
    texts,
    st.lists(st.one_of(text_blocks, st.just({"type": "text", "text": "x-anthropic-billing-header: v=1"})), max_size=3),
)
numbers = st.sampled_from([0, 0.3, 1, 1.0, 0.95, 2, 2.5, -1, 1.00000001, 1e-50, 0.5])
efforts = st.sampled_from(["none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max", "x"])
thinking = st.fixed_dictionaries(
    {"type": st.sampled_from(["enabled", "adaptive", "disabled", "disabled", "auto"])},
    optional={"budget_tokens": st.sampled_from([0, 1024, None, -1])},
)
messages_requests = st.fixed_dictionaries(
    {"model": st.sampled_from(MODELS[:4]), "messages": conversations},
    optional={
        "max_tokens": st.sampled_from([0, 1, 99, 393216, 393217, 2**32 - 1, 2**32, -1, 5.0, None]),
        "system": systems_prompts,
        "stream": st.booleans(),
        "temperature": numbers,
        "top_p": numbers,
        "top_k": numbers,
        "stop_sequences": st.lists(texts, max_size=3),
        "metadata": st.fixed_dictionaries({}, optional={"user_id": st.none() | texts}),
        "thinking": thinking,
        "tools": tools,
        "tool_choice": choices,
        "output_config": st.fixed_dictionaries({}, optional={"effort": efforts}),
    },
)


conversion_options = st.fixed_dictionaries(
    {},
    optional={
        "default_thinking_mode": st.booleans(),
        "reasoning_content_behavior": st.sampled_from(["Reject", "FillEmpty"]),
        "messages_web_search": st.sampled_from(["Drop", "Reject"]),
        "thinking_max_tokens_upper_bound": st.sampled_from([1, 1000]),
        "non_thinking_max_tokens_upper_bound": st.sampled_from([1, 1000]),
    },
)
