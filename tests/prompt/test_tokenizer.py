import json
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as HfTokenizer

from fakes.tokenizer_json import added_tokens, without_added_tokens
from whitedwarf.errors import FileFormatError
from whitedwarf.prompt.special import RENDERED_CHAT_TOKENS, SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

GOLDEN = Path(__file__).parents[1] / "golden" / "prompt"
CORPUS: list[str] = json.loads((GOLDEN / "corpus.json").read_text(encoding="utf-8"))
IDS: dict[str, list[list[int]]] = json.loads((GOLDEN / "corpus_ids.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def official(deepseek_json: Path) -> HfTokenizer:
    return HfTokenizer.from_str(without_added_tokens(deepseek_json))


@pytest.mark.parametrize("name", ["deepseek", "nano"])
def test_corpus_has_the_ids_of_the_official_tokenizer(name: str, request: pytest.FixtureRequest) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(name)
    for text, expected in zip(CORPUS, IDS[name], strict=True):
        ids = tokenizer.encode(text)
        assert ids == expected, f"{text!r}\nours     {tokenizer.decode(ids)!r}\nexpected {tokenizer.decode(expected)!r}"


def test_the_source_of_the_project_has_the_ids_of_the_official_tokenizer(
    deepseek: Tokenizer, official: HfTokenizer
) -> None:
    for path in sorted(Path(__file__).parent.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert deepseek.encode(text) == official.encode(text, add_special_tokens=False).ids


# Weighted towards what the pre-tokenizer distinguishes; plain st.text() is nearly all unassigned planes.
LIVELY = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from(" \t\r\n\u00a0\u3000'\"<>/|｜▁_!.,0123456789"),
        st.characters(categories=["M", "N", "P", "S", "Z"]),
        st.characters(min_codepoint=0x3000, max_codepoint=0x9FFF),
        st.characters(max_codepoint=0x7F),
    ),
    max_size=60,
)


@settings(max_examples=400, deadline=None)
@given(LIVELY)
def test_random_unicode_has_the_ids_of_the_official_tokenizer(
    deepseek: Tokenizer, official: HfTokenizer, text: str
) -> None:
    ids = deepseek.encode(text)
    assert ids == official.encode(text, add_special_tokens=False).ids
    assert deepseek.decode(ids) == text


@pytest.mark.parametrize("name", ["deepseek", "nano"])
def test_no_added_token_can_be_spelt_in_plain_text(name: str, request: pytest.FixtureRequest) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(name)
    added = added_tokens(request.getfixturevalue(f"{name}_json"))
    forbidden = set(added.values())
    assert forbidden == set(tokenizer.vocabulary.special_ids.values())
    for spelling in added:
        for text in (spelling, f" {spelling}", f"x{spelling}y", spelling * 2, f"\n{spelling}\n", f"ab{spelling}12"):
            ids = tokenizer.encode(text)
            assert not forbidden & set(ids), f"{text!r} gave a control token"
            assert tokenizer.decode(ids) == text


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(LIVELY, st.sampled_from([*SpecialToken]), st.sampled_from(["<｜", "｜>", "<", "｜"]))))
def test_no_mixture_of_text_and_spellings_yields_a_control_token(nano: Tokenizer, pieces: list[str]) -> None:
    text = "".join(pieces)
    ids = nano.encode(text)
    assert not set(nano.vocabulary.special_ids.values()) & set(ids)
    assert nano.decode(ids) == text


def test_without_token_types_the_control_tokens_are_still_out_of_reach(
    deepseek: Tokenizer, deepseek_metadata: dict[str, object]
) -> None:
    metadata = {key: value for key, value in deepseek_metadata.items() if key != "tokenizer.ggml.token_type"}
    assert Tokenizer.from_metadata(metadata).vocabulary.special_ids == deepseek.vocabulary.special_ids


def test_rendered_text_recognises_exactly_the_seven_spellings(deepseek: Tokenizer, deepseek_json: Path) -> None:
    for spelling, token_id in added_tokens(deepseek_json).items():
        ids = deepseek.encode_rendered(f"a{spelling}b")
        expected = spelling in [str(token) for token in RENDERED_CHAT_TOKENS]
        assert (token_id in ids) is expected, spelling
        assert deepseek.decode(ids) == f"a{spelling}b"


def test_a_closing_dsml_tag_begins_with_two_tokens(deepseek: Tokenizer) -> None:
    ids = deepseek.encode_rendered("</｜DSML｜tool_calls>")
    assert [deepseek.token_bytes(ids[0]), ids[1]] == [b"</", deepseek.special_id(SpecialToken.DSML)]


def test_every_token_has_the_bytes_of_its_spelling(deepseek: Tokenizer) -> None:
    assert deepseek.token_bytes(deepseek.special_id(SpecialToken.BOS)) == "<｜begin▁of▁sentence｜>".encode()
    assert deepseek.token_bytes(deepseek.special_id(SpecialToken.THINK_OPEN)) == b"<think>"
    single_bytes = {deepseek.token_bytes(i) for i in range(deepseek.vocab_size)} & {bytes([b]) for b in range(256)}
    assert len(single_bytes) == 256


@pytest.mark.parametrize("token_id", [-1, 4096])
def test_an_id_outside_the_vocabulary_is_refused(nano: Tokenizer, token_id: int) -> None:
    with pytest.raises(ValueError, match=f"token id {token_id} is outside the vocabulary of 4096 tokens"):
        nano.token_bytes(token_id)


def test_lone_surrogates_become_replacement_characters(nano: Tokenizer) -> None:
    assert nano.decode(nano.encode("a\ud800b\udcffc")) == "a\ufffdb\ufffdc"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 4095), max_size=40))
def test_streamed_ids_give_the_text_of_the_whole(nano: Tokenizer, ids: list[int]) -> None:
    decoder = nano.stream_decoder()
    assert "".join([*map(decoder.feed, ids), decoder.finish()]) == nano.decode(ids)


@settings(max_examples=200, deadline=None)
@given(LIVELY)
def test_after_each_streamed_id_only_an_incomplete_character_is_held_back(nano: Tokenizer, text: str) -> None:
    decoder, shown, fed = nano.stream_decoder(), "", b""
    for token_id in nano.encode(text):
        shown += decoder.feed(token_id)
        fed += nano.token_bytes(token_id)
        assert len(fed) - len(shown.encode()) < 4
        assert fed.startswith(shown.encode())
    assert shown + decoder.finish() == text


def test_an_invalid_byte_does_not_stall_later_text(nano: Tokenizer) -> None:
    invalid, lead = (nano.vocabulary.tokens.index(character) for character in ("ÿ", "â"))  # bytes 0xff and 0xe2
    decoder = nano.stream_decoder()
    assert decoder.feed(invalid) == "\ufffd"
    assert decoder.feed(lead) == ""
    assert decoder.feed(nano.encode("x")[0]) == "\ufffdx"
    assert decoder.feed(lead) + decoder.finish() == "\ufffd"


def test_loading_the_real_vocabulary_is_quick(deepseek_metadata: dict[str, object]) -> None:
    cpu_s = []
    for _ in range(3):
        start_s = time.thread_time()  # not wall time: test machines are shared
        Tokenizer.from_metadata(deepseek_metadata)
        cpu_s.append(time.thread_time() - start_s)
    assert min(cpu_s) < 1.0  # 0.3 s on an idle machine; this guards against a slip to seconds


def test_encoding_lets_other_threads_run(deepseek: Tokenizer) -> None:
    text = "".join(CORPUS) * 4000  # some tenths of a second
    worker = threading.Thread(target=deepseek.encode, args=(text,))
    worker.start()
    ticks = 0
    while worker.is_alive():
        time.sleep(0.001)
        ticks += 1
    assert ticks >= 5


# Bad metadata


@pytest.fixture
def metadata() -> dict[str, object]:
    alphabet = [chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)]]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "joyai-llm",
        "tokenizer.ggml.tokens": [*alphabet, "ab", "abc", "<think>"],
        "tokenizer.ggml.token_type": [*[1] * 258, 3],
        "tokenizer.ggml.merges": ["a b", "ab c"],
    }


def test_a_small_vocabulary_works(metadata: dict[str, object]) -> None:
    tokenizer = Tokenizer.from_metadata(metadata)
    assert tokenizer.encode("abc") == [257]
    assert tokenizer.special_id(SpecialToken.THINK_OPEN) == 258


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.ggml.tokens": None}, "tokenizer.ggml.tokens is missing"),
        ({"tokenizer.ggml.tokens": []}, "tokenizer.ggml.tokens is empty"),
        ({"tokenizer.ggml.tokens": "abc"}, "tokenizer.ggml.tokens is a str"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "expected an array of strings"),
        ({"tokenizer.ggml.merges": None}, "tokenizer.ggml.merges is missing"),
        ({"tokenizer.ggml.merges": ["a b", "ab zz"]}, r"tokenizer.ggml.merges\[1\] is 'ab zz', but 'zz' is no text"),
        ({"tokenizer.ggml.merges": ["a b", "b c"]}, r"tokenizer.ggml.merges\[1\] is 'b c', but 'bc' is no text"),
        ({"tokenizer.ggml.merges": ["ab"]}, r"tokenizer.ggml.merges\[0\] is 'ab'; expected two tokens"),
        ({"tokenizer.ggml.merges": ["a b c"]}, r"tokenizer.ggml.merges\[0\] is 'a b c'; expected two tokens"),
        ({"tokenizer.ggml.merges": [" a"]}, r"tokenizer.ggml.merges\[0\]"),
        ({"tokenizer.ggml.merges": ["< t", "<t h"]}, r"tokenizer.ggml.merges\[0\]"),
        ({"tokenizer.ggml.token_type": [1, 3]}, "tokenizer.ggml.token_type has 2 entries; expected 259"),
        ({"tokenizer.ggml.token_type": 3}, "tokenizer.ggml.token_type is a int"),
        ({"tokenizer.ggml.pre": "qwen2"}, "tokenizer.ggml.pre is 'qwen2'; expected 'joyai-llm'"),
        ({"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.model is 'llama'; expected 'gpt2'"),
    ],
)
def test_bad_metadata_is_refused_by_key(metadata: dict[str, object], change: dict[str, object], message: str) -> None:
    changed = {key: value for key, value in (metadata | change).items() if value is not None}
    with pytest.raises(FileFormatError, match=message):
        Tokenizer.from_metadata(changed)


def test_a_repeated_token_is_refused(metadata: dict[str, object]) -> None:
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    with pytest.raises(FileFormatError, match=r"tokenizer.ggml.tokens\[257\] repeats 'ab'"):
        Tokenizer.from_metadata(metadata | {"tokenizer.ggml.tokens": [*tokens[:257], "ab", tokens[258]]})


def test_a_vocabulary_without_some_byte_is_refused(metadata: dict[str, object]) -> None:
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    with pytest.raises(FileFormatError, match="no token for byte 0x21"):
        Tokenizer.from_metadata(metadata | {"tokenizer.ggml.tokens": ["[PAD]", *tokens[1:]]})


def test_a_missing_control_token_is_named(metadata: dict[str, object]) -> None:
    with pytest.raises(FileFormatError, match=r"no control token '<｜User｜>' \(USER\)"):
        Tokenizer.from_metadata(metadata).special_id(SpecialToken.USER)


def test_a_merge_that_would_make_a_control_token_is_refused(metadata: dict[str, object]) -> None:
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    changed = {"tokenizer.ggml.tokens": [*tokens[:258], "xy"], "tokenizer.ggml.merges": ["x y"]}
    with pytest.raises(FileFormatError, match="'xy' is no text token"):
        Tokenizer.from_metadata(metadata | changed)
