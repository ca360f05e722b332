"""The native encoder gives the ids of Hugging Face's library, whatever the text and the vocabulary."""

import itertools
import random
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.errors import FileFormatError
from whitedwarf.prompt import byte_pairs
from whitedwarf.prompt.byte_pairs import PlainEncoder, native_encoder
from whitedwarf.prompt.tokenizer import ReferenceEncoder, Tokenizer
from whitedwarf.prompt.vocabulary import BYTE_OF, Vocabulary

CODE_POINTS = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
CHUNKS = [CODE_POINTS[start : start + 64] for start in range(0, len(CODE_POINTS), 64)]
# One string for each thing that the pre-tokenizer tells apart, and what lies beside it in the tables.
KINDS = [
    *("a", "Z", "é", "İ", "ж", "ש", "한", "ก", "\u0301", "\u0903", "\u0897", "\ua7cb"),  # letters and marks
    *("1", "٣", "Ⅷ", "²", "〇", "\U00010d40"),  # numbers
    *("!", "'", "_", "$", "<", "|", "｜", "▁", "。", "€", "😀", "\u2427"),  # signs
    *(" ", "\t", "\u00a0", "\u3000", "\x85", "\u2028", "\x1f", "\n", "\r", "\r\n"),  # blanks, and one that is none
    *("\x00", "\u200b", "\u200d", "\ufeff", "\u0378", "\ue000", "\U0010ffff"),  # nothing of that
    *(
        "中",
        "龥",
        "龦",
        "一",
        "\u3040",
        "あ",
        "\u3097",
        "\u3099",
        "゛",
        "ア",
        "・",
        "ー",
        "ヿ",
    ),  # what is cut out first
]
TEXTS = st.lists(st.sampled_from(KINDS) | st.characters(exclude_categories=["Cs"]), max_size=40).map("".join)


@pytest.fixture(scope="session")
def native(deepseek: Tokenizer) -> PlainEncoder:
    encoder = native_encoder(deepseek.vocabulary)
    assert encoder is not None
    return encoder


@pytest.fixture(scope="session")
def reference(deepseek: Tokenizer) -> ReferenceEncoder:
    return ReferenceEncoder(deepseek.vocabulary)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_random_text_has_the_reference_s_ids(native: PlainEncoder, reference: ReferenceEncoder, text: str) -> None:
    assert native.encode([text]) == reference.encode([text])


def test_all_short_sequences_of_kinds_have_the_reference_s_ids(
    native: PlainEncoder, reference: ReferenceEncoder
) -> None:
    texts = ["".join(kinds) for kinds in itertools.product(KINDS, repeat=2)]
    assert native.encode(texts) == reference.encode(texts)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["{}", "a{}", " {}b", "あ{}あ", "!{} \n"])
def test_every_code_point_is_in_the_reference_s_class(
    native: PlainEncoder, reference: ReferenceEncoder, form: str
) -> None:
    texts = ["".join(form.replace("{}", c) for c in chunk) for chunk in CHUNKS]
    for text, ids, expected in zip(texts, native.encode(texts), reference.encode(texts), strict=True):
        assert ids == expected, f"{text!r}: if tokenizers has a new Unicode, run scripts/make_character_ranges.py"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_random_texts_have_the_reference_s_ids(
    native: PlainEncoder, reference: ReferenceEncoder, seed: int
) -> None:
    choose = random.Random(seed)

    def text() -> str:
        pools = choose.sample(
            [KINDS, CODE_POINTS, CODE_POINTS[:128], CODE_POINTS[:0x3100], KINDS[-13:], [" ", "\n"]], 2
        )
        length = choose.choice([3, 10, 30, 100])
        return "".join(choose.choice(choose.choice(pools)) * choose.choice([1, 1, 1, 2, 30]) for _ in range(length))

    texts = [text() for _ in range(4000)]
    for text_, ids, expected in zip(texts, native.encode(texts), reference.encode(texts), strict=True):
        assert ids == expected, repr(text_)


LETTERS = "abc"


@st.composite
def vocabularies(draw: st.DrawFn) -> Vocabulary:
    """Random merges in random order: also such as no training makes, and the same pair twice."""
    tokens = [*BYTE_OF]
    merges: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 25))):
        known = st.sampled_from([token for token in tokens if set(token) <= set(LETTERS)])
        pair = draw(known), draw(known)
        merges.append(pair)
        if "".join(pair) not in tokens:
            tokens.append("".join(pair))
    ordered = tuple(draw(st.permutations(merges)))
    return Vocabulary(tuple(tokens), ordered, {token: i for i, token in enumerate(tokens)}, {})


@settings(max_examples=200, deadline=None)
@given(vocabularies(), st.lists(st.text(LETTERS, max_size=200), min_size=1, max_size=5))
def test_any_vocabulary_has_the_reference_s_ids(vocabulary: Vocabulary, texts: list[str]) -> None:
    encoder = native_encoder(vocabulary)
    assert encoder is not None
    assert encoder.encode(texts) == ReferenceEncoder(vocabulary).encode(texts)


@pytest.mark.parametrize(
    "unit", ["a", " ", "1", "\n", "!", "中", "\x00", "\u0378", " \n", "\na", "a\u0301", "ab\u200d"]
)
def test_a_megabyte_of_one_thing_has_the_reference_s_ids_in_little_time(
    native: PlainEncoder, reference: ReferenceEncoder, unit: str
) -> None:
    text = unit * (1_000_000 // len(unit.encode()))
    start_s = time.thread_time()  # not wall time: test machines are shared
    [ids] = native.encode([text])
    assert time.thread_time() - start_s < 2  # 0.01 to 0.2 s on an idle machine; something quadratic takes minutes
    assert [ids] == reference.encode([text])


def test_threads_share_one_encoder(native: PlainEncoder) -> None:
    texts = [unit * 3000 for unit in ("def f(x):\n    return x\n", "Ünï ", "你好，世界", "a1b2 ")]
    expected = [native.encode([text])[0] for text in texts]
    results: list[bool] = []

    def work(text: str, ids: list[int]) -> None:
        results.extend(native.encode([text, text]) == [ids, ids] for _ in range(20))

    threads = [threading.Thread(target=work, args=pair) for pair in zip(texts, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 80


def test_no_texts_have_no_ids_and_an_empty_one_has_an_empty_list(native: PlainEncoder) -> None:
    assert native.encode([]) == []
    assert native.encode(["", "a", ""])[::2] == [[], []]


@pytest.mark.parametrize(("texts", "error"), [(["a\ud800"], UnicodeEncodeError), ([b"a"], TypeError), ("a", TypeError)])
def test_what_is_no_list_of_sound_text_is_refused(native: PlainEncoder, texts: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        native.encode(texts)  # type: ignore[arg-type]


def test_a_vocabulary_that_lacks_a_byte_is_refused() -> None:
    text_ids = {token: i for i, token in enumerate(BYTE_OF) if token != "a"}
    with pytest.raises(ValueError, match="no text token 'a'"):
        native_encoder(Vocabulary(tuple(BYTE_OF), (), text_ids, {}))


def test_a_wrong_merge_is_named() -> None:
    vocabulary = Vocabulary(tuple(BYTE_OF), (("a", "b"),), {token: i for i, token in enumerate(BYTE_OF)}, {})
    with pytest.raises(FileFormatError, match=r"merges\[0\] is 'a b', but 'ab' is no text token"):
        native_encoder(vocabulary)


def test_without_the_native_module_hugging_face_s_library_stands_in(
    nano: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "whitedwarf._native", None)
    assert byte_pairs.native_encoder(nano.vocabulary) is None
    assert Tokenizer(nano.vocabulary).encode("Hello, world\n") == nano.encode("Hello, world\n")
