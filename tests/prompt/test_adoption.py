"""Prompts that begin with the ids of a saved state."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prompt.test_sampled_answers import array, controls, split_otherwise
from whitedwarf.prompt.adoption import Reading, continued
from whitedwarf.prompt.tokenizer import Tokenizer

TEXT = st.text(st.sampled_from("ab c\n<漢é🦔"), max_size=20)


@given(texts=st.lists(TEXT, min_size=1, max_size=4), seed=st.integers(0, 999), cut=st.integers(0, 60))
def test_the_prompt_reads_the_same_and_begins_with_the_held_ids(
    nano: Tokenizer, texts: list[str], seed: int, cut: int
) -> None:
    user = controls(nano)[0]
    canonical = array([token for text in texts for token in (user, *nano.encode(text))])
    other = [token for n, text in enumerate(texts) for token in (user, *split_otherwise(text, nano, seed + n))]
    held = array(other[: max(1, cut)])
    found = continued(Reading.of(canonical, nano), held, nano)
    if found is None:  # only where the cut goes through a character
        assert "\ufffd" in nano.decode(held.tolist())
        return
    assert np.array_equal(found[: len(held)], held)
    assert nano.decode(found.tolist()) == nano.decode(canonical.tolist())
    assert [t for t in found.tolist() if t == user] == [user] * len(texts)


def test_a_control_token_is_not_its_spelling(nano: Tokenizer) -> None:
    user = controls(nano)[0]
    spelt = nano.encode(nano.decode([user]) + "Hi")
    prompt = Reading.of(array([user, *nano.encode("Hi"), user]), nano)
    assert continued(prompt, array(spelt), nano) is None
    assert continued(Reading.of(array(spelt), nano), array([user, *nano.encode("Hi")]), nano) is None


def test_other_text_is_not_continued(nano: Tokenizer) -> None:
    user = controls(nano)[0]
    prompt = Reading.of(array([user, *nano.encode("Hi there")]), nano)
    assert continued(prompt, array([user, *nano.encode("Ho")]), nano) is None
    assert continued(prompt, array([user, *nano.encode("Hi there, and more")]), nano) is None


def test_what_the_tokenizer_makes_itself_is_left_as_it_is(nano: Tokenizer) -> None:
    user = controls(nano)[0]
    ids = array([user, *nano.encode("Hi there"), user])
    assert continued(Reading.of(ids, nano), ids[:2], nano) is ids
