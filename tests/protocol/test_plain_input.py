import json

from hypothesis import given
from hypothesis import strategies as st

from prompt.streams import cut
from whitedwarf.protocol.plain_input import PlainInput, plain_input

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


def streamed(fragments: list[str]) -> str:
    plain = PlainInput()
    pieces = [plain.take(fragment) for fragment in fragments]
    return "".join(pieces) + plain.finish("".join(fragments))


@given(TEXT, st.booleans(), st.lists(st.integers(0, 5), max_size=30), st.dictionaries(TEXT, TEXT, max_size=2))
def test_the_input_is_the_same_however_its_json_was_cut(
    text: str, is_ascii: bool, sizes: list[int], more: dict[str, str]
) -> None:
    arguments = json.dumps(
        {"input": text} | {"more " + key: value for key, value in more.items()}, ensure_ascii=is_ascii
    )
    assert streamed(cut(arguments, sizes)) == text


def test_text_is_given_out_as_it_comes() -> None:
    plain = PlainInput()
    fragments = ['{"input": "', "a", "\\", "nb\\u00", 'e9"', "}"]
    assert [plain.take(fragment) for fragment in fragments] == ["", "a", "", "\nb", "é", ""]


def test_half_a_character_in_escapes_waits_for_the_other_half() -> None:
    plain = PlainInput()
    assert plain.take('{"input": "\\ud83e') == ""
    assert plain.take("\\udd94") == "🦔"


def test_half_a_character_alone_becomes_a_replacement_character() -> None:
    assert streamed(['{"input": "\\ud83e', 'x"}']) == "\ufffdx"


@given(st.lists(st.integers(0, 5), max_size=30))
def test_an_argument_of_another_name_is_found_at_the_end(sizes: list[int]) -> None:
    assert streamed(cut('{"n": 1, "patch": "*** Begin\\n"}', sizes)) == "*** Begin\n"
    assert streamed(cut('{"why": "so", "input": "*** Begin\\n"}', sizes)) == "*** Begin\n"


def test_arguments_without_any_text_are_given_as_they_are() -> None:
    assert plain_input('{"n": 1}') == '{"n": 1}'
    assert plain_input("{}") == "{}"
    assert plain_input('{"input": oops}') == '{"input": oops}'


def test_a_cut_call_gives_what_came() -> None:
    plain = PlainInput()
    assert plain.take('{"input": "rm -rf /t') == "rm -rf /t"
