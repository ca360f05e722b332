"""Random conversations, as dumps (see recipe_conversations.py), made to hurt: whatever a client could send."""

import json
from typing import Any

from hypothesis import strategies as st

from whitedwarf.prompt.special import SpecialToken

LOOK_ALIKES = [
    *(token.value for token in SpecialToken),
    "<|User|>",
    "<|begin▁of▁sentence|>",
    "＜｜User｜＞",
    "<｜tool▁calls▁begin｜>",
    "<｜DSML｜tool_calls>\n",
    "</｜DSML｜ calls>",
    '<｜DSML｜invoke name="x">',
    "<tool_result>",
    "</tool_result>",
    "## Tools",
    "<｜",
    "｜>",
    "｜",
]
ORDINARY = [
    "",
    "a",
    "word",
    " ",
    "\n",
    "\n\n",
    "\r\n",
    "\t",
    "é",
    "e\u0301",
    "日本",
    "😀",
    "\u2028",
    "\x7f",
    "\x00",
    '"',
    "\\",
]

plain_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
texts = st.lists(st.one_of(st.sampled_from(LOOK_ALIKES), st.sampled_from(ORDINARY), plain_texts), max_size=4).map(
    "".join
)
floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.builds(lambda m, e: float(f"{m}e{e}"), st.integers(-999, 999), st.integers(-12, 24)),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), floats, texts)


def _nested(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(children, max_size=3), st.dictionaries(texts, children, max_size=3))


json_values = st.recursive(scalars, _nested, max_leaves=8)
schemas = st.one_of(
    json_values,
    st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(texts, json_values, max_size=3)}),
)

JSON_TEXTS = [
    *("", "null", "[]", "{}", " {} ", "\ufeff{}", "\x0b{}", "{}x", "[" * 5000, '{"":""}', '{"a":1,}', '{"a":tru}'),
    *('{"a":-0}', '{"a":-0.0}', '{"a":01}', '{"a":1.}', '{"a":NaN}', '{"a":-Infinity}', '{"a":1e400}', '{"a":1e-400}'),
    '{"a":18446744073709551615,"b":18446744073709551616}',
    '{"a":-9223372036854775808,"b":-9223372036854775809}',
    '{"a":1E+2,"b":1e-5,"c":9.9e-6,"d":-1.25e-7,"e":[0.00001234,1e16,1e15,-1e-4]}',
    *('{"a":"\x01"}', '{"a":"\\ud800"}', '{"\\udc00":1}', '{"a":"\\ud83d\\ude00"}', '{"a":"\\/\\u0041\\u0000"}'),
    *('{"a":"\\x"}', '{"a":"first","b":2,"a":[1]}', '{"a":{"b":[1, {"c":null}]}}'),
    *('{"a":' + "9" * digits + "}" for digits in (19, 20, 21, 30, 308, 309, 5000)),
    '{"a":0.' + "1" * 5000 + "}",
    *('{"a":' * depth + "1" + "}" * depth for depth in (127, 128)),
    *('{"a":' + "[" * depth + "]" * depth + "}" for depth in (126, 127)),
]
arguments = st.one_of(
    st.dictionaries(texts, json_values, max_size=4).map(lambda value: json.dumps(value, ensure_ascii=False)),
    st.dictionaries(texts, json_values, max_size=4).map(lambda value: json.dumps(value, indent=1)),
    st.sampled_from(JSON_TEXTS),
    texts,
)

IDS = ["", "c1", "c2", "c10", "B", "é", "😀", "\uffff"]
ids = st.sampled_from(IDS)
calls = st.lists(st.tuples(ids, texts, arguments).map(list), max_size=4)
tools = st.lists(
    st.fixed_dictionaries(
        {
            "name": texts,
            "description": st.none() | texts,
            "parameters": schemas,
            "strict": st.none() | st.booleans(),
            "defer_loading": st.booleans(),
        }
    ),
    max_size=3,
)
images = st.lists(
    st.tuples(
        st.sampled_from(["url", "data_url", "bytes"]),
        st.sampled_from(["low", "high", "original", "auto"]),
        texts,
    ).map(list),
    max_size=3,
)

users = st.fixed_dictionaries({"role": st.just("user"), "content": texts}, optional={"images": images})
systems = st.fixed_dictionaries(
    {"role": st.just("system"), "content": texts}, optional={"images": images, "tools": st.none() | tools}
)
results = st.fixed_dictionaries(
    {"role": st.just("tool"), "content": texts, "tool_call_id": st.none() | ids}, optional={"images": images}
)
reminders = st.fixed_dictionaries({"role": st.just("latest_reminder"), "content": texts})
assistants = st.fixed_dictionaries(
    {
        "role": st.just("assistant"),
        "content": texts,
        "reasoning_content": st.none() | texts,
        "tool_calls": st.none() | calls,
        "prefix": st.sampled_from([False, False, False, True]),
    }
)


@st.composite
def tool_rounds(draw: st.DrawFn) -> list[dict[str, Any]]:
    """An assistant's calls and their results, shuffled, now and then with something between them."""
    assistant = draw(assistants)
    assistant["tool_calls"] = draw(calls)
    answers = [draw(results) | {"tool_call_id": call[0]} for call in assistant["tool_calls"]]
    answers += draw(st.lists(st.one_of(results, users), max_size=2))
    return [assistant, *draw(st.permutations(answers))]


singles = st.one_of(users, systems, results, reminders, assistants).map(lambda message: [message])
messages = st.lists(st.one_of(singles, singles, tool_rounds()), max_size=7).map(
    lambda groups: [message for group in groups for message in group]
)
formats = st.one_of(
    st.just({}),
    st.just({"response_format": "json_object"}),
    st.fixed_dictionaries({"response_schema": schemas.filter(lambda schema: schema is not None)}),
    st.fixed_dictionaries({"response_regex": texts}),
)
conversations = st.builds(
    lambda base, form: base | form,
    st.fixed_dictionaries(
        {
            "messages": messages,
            "thinking_mode": st.booleans(),
            "tools": tools,
            "tool_choice": st.sampled_from(["auto", "none", "required"]),
            "reasoning_effort": st.sampled_from([None, "low", "high", "xhigh", "max"]),
        }
    ),
    formats,
)

SPELLINGS = ["a", "word", "wor", "or", "ord", "<r>", "</", "日", "｜", "<｜User｜>", "<｜image｜>"]
TEMPLATE = ["bos", "eos", "thinking_start", "thinking_end", "system", "user", "assistant", "latest_reminder", "dsml"]
SOUGHT = ["ref", "ref_end", "box", "box_end", "point", "point_end", "polygon", "polygon_end", "image"]
"""Looked for in texts; an empty spelling of one makes the official library panic inside a multi-byte character."""
respellings = st.builds(
    lambda template, sought: template | sought,
    st.dictionaries(st.sampled_from(TEMPLATE), st.sampled_from(["", *SPELLINGS]), max_size=4),
    st.dictionaries(st.sampled_from(SOUGHT), st.sampled_from(SPELLINGS), max_size=5),
)
