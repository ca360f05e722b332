"""Answers put back in the tokens that were drawn, whatever way the model split its words."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.prompt.sampled_answers import SampledAnswers
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Ids, Tokenizer

WORDS = st.text(st.sampled_from("ab c\n<漢é🦔"), min_size=1, max_size=12)


def array(ids: list[int]) -> Ids:
    return np.array(ids, np.int32)


def split_otherwise(text: str, tokenizer: Tokenizer, seed: int) -> list[int]:
    """Ids of the same text, cut at random places before it is tokenised."""
    dice, ids = random.Random(seed), list[int]()
    while text:
        size = dice.randint(1, len(text))
        ids += tokenizer.encode(text[:size])
        text = text[size:]
    return ids


def controls(tokenizer: Tokenizer) -> tuple[int, int, int, int]:
    kinds = SpecialToken.USER, SpecialToken.ASSISTANT, SpecialToken.THINK_CLOSE, SpecialToken.EOS
    user, assistant, close, eos = map(tokenizer.special_id, kinds)
    return user, assistant, close, eos


@given(turns=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=5), seed=st.integers(0, 999))
def test_a_conversation_is_run_as_it_was_drawn(nano: Tokenizer, turns: list[tuple[str, str]], seed: int) -> None:
    user, assistant, close, eos = controls(nano)
    answers = SampledAnswers(nano)
    canonical: list[int] = []
    run: list[int] = []
    for number, (asked, said) in enumerate(turns):
        question = [user, *nano.encode(asked), assistant, close]
        canonical, run = canonical + question, run + question
        assert answers.adopt(array(canonical)).tolist() == run
        assert answers.knows(array(canonical))
        drawn = split_otherwise(said, nano, seed + number)
        answers.remember(array(canonical), drawn)
        canonical, run = [*canonical, *nano.encode(said), eos], [*run, *drawn, eos]
        assert nano.decode(run) == nano.decode(canonical)
    assert answers.adopt(array(canonical)).tolist() == run


def test_what_was_drawn_counts_only_behind_the_prompt_it_answered(nano: Tokenizer) -> None:
    user, assistant, close, eos = controls(nano)
    answers = SampledAnswers(nano)
    drawn = [*nano.encode("a"), *nano.encode("b")]
    prompts = [[user, *nano.encode(text), assistant, close] for text in ("one", "two")]
    answers.remember(array(prompts[0]), drawn)
    canonical = nano.encode("ab")
    assert canonical != drawn, "or this says nothing"
    ends = [[*prompt, *canonical, eos] for prompt in prompts]
    assert answers.adopt(array(ends[0])).tolist() == [*prompts[0], *drawn, eos]
    assert answers.adopt(array(ends[1])).tolist() == ends[1]
    assert [answers.knows(array(ids)) for ids in ends] == [True, False]


def test_an_answer_that_goes_on_from_given_words_is_found_again(nano: Tokenizer) -> None:
    user, assistant, close, eos = controls(nano)
    answers = SampledAnswers(nano)
    start = [user, assistant, close]
    begun = [*start, *nano.encode("The be")]
    drawn = nano.encode("ginning.")
    answers.remember(array(begun), drawn)
    canonical = [*start, *nano.encode("The beginning."), eos]
    assert answers.adopt(array(canonical)).tolist() == [*begun, *drawn, eos]


def test_bytes_that_are_no_text_are_not_looked_for(nano: Tokenizer) -> None:
    user, assistant, close, eos = controls(nano)
    answers = SampledAnswers(nano)
    half = nano.encode("🦔")[:1]
    answers.remember(array([user, assistant, close]), half)
    ids = array([user, assistant, close, *nano.encode("\ufffd"), eos])
    assert answers.adopt(ids).tolist() == ids.tolist()


def test_what_a_saved_state_holds_can_be_learnt(nano: Tokenizer) -> None:
    user, assistant, close, eos = controls(nano)
    first = [user, *nano.encode("Hi"), assistant, close]
    odd = [*nano.encode("a"), *nano.encode("b")]
    tail = [user, *nano.encode("More"), assistant, close]
    canonical = array([*first, *nano.encode("ab"), eos, *tail, *nano.encode("plain"), eos])
    run = array([*first, *odd, eos, *tail, *nano.encode("plain"), eos])
    answers = SampledAnswers(nano)
    assert not answers.knows(canonical)
    answers.learn(canonical, run)
    assert answers.knows(canonical)
    longer = np.concatenate([canonical, array(tail)])
    assert answers.adopt(longer).tolist() == [*run.tolist(), *tail]


def test_a_shorter_saved_state_does_not_make_forget_how_answers_were_drawn(nano: Tokenizer) -> None:
    user, assistant, close, eos = controls(nano)
    first = [user, *nano.encode("Hi"), assistant, close]
    odd = [*nano.encode("a"), *nano.encode("b")]
    answers = SampledAnswers(nano)
    answers.remember(array(first), odd)
    rewritten = [user, assistant, close, *nano.encode("by the client"), eos]
    canonical = array([*first, *nano.encode("ab"), eos, *rewritten])
    assert not answers.knows(canonical)
    answers.learn(canonical, canonical)  # of a state that holds no more than the first question
    assert answers.knows(canonical)
    assert answers.adopt(canonical).tolist() == [*first, *odd, eos, *rewritten]


def test_who_asks_while_another_looks_at_a_new_answer_waits_for_it(
    nano: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, assistant, close, eos = controls(nano)
    prompt, odd = [user, assistant, close], [*nano.encode("a"), *nano.encode("b")]
    canonical = array([*prompt, *nano.encode("ab"), eos])
    answers = SampledAnswers(nano)
    answers.remember(array(prompt), odd)
    is_looking, may_go_on = threading.Event(), threading.Event()
    encode = nano.encode

    def encode_slowly(text: str) -> list[int]:
        is_looking.set()
        assert may_go_on.wait(60)
        return encode(text)

    monkeypatch.setattr(nano, "encode", encode_slowly)
    with ThreadPoolExecutor() as pool:
        one = pool.submit(answers.adopt, canonical)
        assert is_looking.wait(60)
        other = pool.submit(answers.adopt, canonical)
        with pytest.raises(TimeoutError):
            other.result(0.05)
        may_go_on.set()
        assert one.result(20).tolist() == other.result(20).tolist() == [*prompt, *odd, eos]


@given(seed=st.integers(0, 9999), length=st.integers(1, 40), cut=st.integers(0, 40))
def test_whatever_was_drawn_the_prompt_reads_the_same(nano: Tokenizer, seed: int, length: int, cut: int) -> None:
    """Any tokens, control tokens and halves of characters among them."""
    user, assistant, _, eos = controls(nano)
    dice = random.Random(seed)
    specials = sorted(set(nano.vocabulary.special_ids.values()) - {eos})
    drawn = [dice.choice(specials) if dice.random() < 0.2 else dice.randrange(nano.vocab_size) for _ in range(length)]
    drawn = [token for token in drawn if token != eos]
    answers = SampledAnswers(nano)
    prompt = [user, *nano.encode("Well?"), assistant]
    answers.remember(array(prompt), drawn)
    for said in (drawn, drawn[:cut], drawn[cut:]):
        for ids in (said, nano.encode(nano.decode(said))):
            canonical = [*prompt, *ids, eos]
            run = answers.adopt(array(canonical)).tolist()
            assert nano.decode(run) == nano.decode(canonical)
            assert [token for token in run if token in specials] == [token for token in canonical if token in specials]


@pytest.mark.parametrize("bounds", [{"max_answers": 3}, {"max_bytes": 700}])
def test_the_oldest_are_forgotten(nano: Tokenizer, bounds: dict[str, int]) -> None:
    user, assistant, close, eos = controls(nano)
    answers = SampledAnswers(nano, **bounds)
    drawn = [*nano.encode("a"), *nano.encode("b")]
    prompts = [array([user, *nano.encode(str(number)), assistant, close]) for number in range(6)]
    for prompt in prompts:
        answers.remember(prompt, drawn)
    whole = [array([*prompt.tolist(), *nano.encode("ab"), eos]) for prompt in prompts]
    known = [answers.knows(ids) for ids in whole]
    assert known == [False, False, False, True, True, True]
