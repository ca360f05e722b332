"""Which offered states get a file, by prompts that were looked up before."""

import numpy as np
import pytest

from whitedwarf.engine.prefix import SaveReason
from whitedwarf.kvstore.header import Reason
from whitedwarf.kvstore.policy import Limits
from whitedwarf.server.save_plans import MAX_PLANS, SavePlans

USER, ASSISTANT = 1, 2
LIMITS = Limits(
    min_tokens=10,
    cold_max_tokens=100,
    continued_interval_tokens=60,
    boundary_trim_tokens=3,
    boundary_align_tokens=20,
)


@pytest.fixture
def plans() -> SavePlans:
    return SavePlans(LIMITS, USER, ASSISTANT)


def ids(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(100, 200, length).astype(np.int32)


def test_a_new_prompt_is_saved_once_at_its_boundary(plans):
    plans.expect(ids(50))
    assert plans.reason(ids(39), SaveReason.COLD) is None
    assert plans.reason(ids(40), SaveReason.COLD) is Reason.COLD
    assert plans.reason(ids(40), SaveReason.COLD) is None
    assert plans.reason(ids(50), SaveReason.COLD) is None


def test_or_whole_where_nobody_stopped_at_the_boundary(plans):
    plans.expect(ids(50))
    assert plans.reason(ids(50), SaveReason.COLD) is Reason.COLD


def test_a_chat_is_saved_before_its_last_question_before_an_answer(plans):
    chat = ids(50)
    chat[[12, 25, 45]] = USER
    chat[30] = ASSISTANT
    plans.expect(chat)
    assert plans.reason(chat[:40], SaveReason.COLD) is None
    assert plans.reason(chat[:25], SaveReason.COLD) is Reason.COLD


def test_prompts_of_any_lengths_wait_beside_each_other(plans):
    for seed, length in enumerate((50, 50, 60, 70)):
        plans.expect(ids(length, seed))
    assert plans.reason(ids(60, 3), SaveReason.COLD) is Reason.COLD
    assert plans.reason(ids(40, 1), SaveReason.COLD) is Reason.COLD
    assert plans.reason(ids(40, 1), SaveReason.COLD) is None
    assert plans.reason(ids(40, 0), SaveReason.COLD) is Reason.COLD


def test_only_the_newest_prompts_are_remembered(plans):
    for seed in range(MAX_PLANS + 1):
        plans.expect(ids(50, seed))
    assert plans.reason(ids(40, 0), SaveReason.COLD) is None
    assert plans.reason(ids(40, 1), SaveReason.COLD) is Reason.COLD


def test_a_prompt_too_long_or_too_short_is_not_expected(plans):
    for length in (9, 101):
        plans.expect(ids(length))
        assert plans.reason(ids(length), SaveReason.COLD) is None


def test_what_grew_by_the_interval_is_saved_on_its_way(plans):
    assert plans.reason(ids(60), SaveReason.CONTINUED) is Reason.CONTINUED
    assert plans.reason(ids(61), SaveReason.CONTINUED) is None
    plans.expect(ids(60))
    assert plans.reason(ids(60), SaveReason.CONTINUED) is Reason.CONTINUED


@pytest.mark.parametrize("offered", [SaveReason.EVICT, SaveReason.SHUTDOWN])
def test_what_leaves_memory_is_saved_if_it_is_long_enough(plans, offered):
    assert plans.reason(ids(10), offered) is Reason[offered.name]
    assert plans.reason(ids(9), offered) is None
