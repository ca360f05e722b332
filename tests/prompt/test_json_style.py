"""JSON in prompts, against the official library and by example."""

import deepseek_recipe as recipe
import pytest
from hypothesis import given, settings

from fakes.conversation_dumps import floats
from whitedwarf.prompt.arguments import parse_arguments
from whitedwarf.prompt.json_style import FloatStyle, Spacing, dumps, v4_float

V4_EXAMPLES = {
    1e-4: "0.0001", 1e-5: "0.00001", 1.5e-5: "0.000015", 9.9e-6: "9.9e-6", 1e-7: "1e-7", -1.25e-10: "-1.25e-10",
    1e15: "1000000000000000.0", 1e16: "1e+16", -0.0: "-0.0", 0.1: "0.1", 5e-324: "5e-324", -12e-6: "-0.000012",
}  # fmt: skip


@pytest.mark.parametrize("number", V4_EXAMPLES)
def test_v4_writes_small_floats_its_own_way(number: float) -> None:
    assert v4_float(number) == V4_EXAMPLES[number]
    assert dumps(number, FloatStyle.V4) == V4_EXAMPLES[number]
    assert dumps(number, FloatStyle.V41) == repr(number)


@settings(max_examples=300, deadline=None)
@given(floats)
def test_v4_floats_are_the_official_ones(number: float) -> None:
    conversation = recipe.Conversation(response_schema={"x": number})
    official = recipe.DeepseekV4Encoding().render_conversation(conversation).prompt
    assert f'{{"x": {v4_float(number)}}}<' in official


def test_keys_keep_their_order_and_text_is_not_escaped() -> None:
    value = {"b": [1e-7, True, None, [], {}, "e-"], "a": 'é"\\\n\x01\x7f\u2028'}
    assert dumps(value, FloatStyle.V4) == (
        '{"b": [1e-7, true, null, [], {}, "e-"], "a": "é\\"\\\\\\n\\u0001\x7f\u2028"}'
    )
    assert dumps(value, FloatStyle.V4, Spacing.COMPACT) == (
        '{"b":[1e-7,true,null,[],{},"e-"],"a":"é\\"\\\\\\n\\u0001\x7f\u2028"}'
    )


def test_arguments_are_an_object_or_nothing() -> None:
    assert parse_arguments(' {"a": -0, "b": 18446744073709551615} ') == {"a": -0.0, "b": 2**64 - 1}
    assert repr(parse_arguments('{"a":18446744073709551616}')) == "{'a': 1.8446744073709552e+19}"
    for text in ("[]", "", "{}x", '{"a":1e400}', '{"a":NaN}', '{"a":"\\ud800"}', "[" * 100_000, '{"a":' * 100_000):
        assert parse_arguments(text) is None
