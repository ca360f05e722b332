"""Small decisions of the desk."""

import pytest

from fakes.launches import managed, start_failed
from whitedwarf.supervisor import policy


def test_failures_are_held_for_5_to_60_s() -> None:
    assert [policy.hold_s(count) for count in (0, 1, 2, 3, 4, 5, 6, 1000)] == [5, 5, 10, 20, 40, 60, 60, 60]


def test_only_a_quick_failure_that_may_pass_is_tried_again() -> None:
    model = managed("m", start_timeout_s=300)
    assert policy.is_worth_another_start(start_failed(), 1, 10, model)
    assert not policy.is_worth_another_start(start_failed(), 2, 10, model)
    assert not policy.is_worth_another_start(start_failed(), 1, 300, model)
    assert not policy.is_worth_another_start(start_failed(is_permanent=True), 1, 10, model)


def test_how_long_a_model_stays() -> None:
    model = managed("m", idle_timeout_s=500)
    assert [policy.kept_for_s(model, asked) for asked in (None, 0, 7.5, -1)] == [500, 0, 7.5, None]
    assert policy.kept_for_s(managed("m", idle_timeout_s=0), None) is None
    assert policy.kept_for_s(managed("m", idle_timeout_s=0), 5) == 5


@pytest.mark.parametrize(
    ("soft", "configured", "real", "found"),
    [
        (3072, 4096, 0, 3072),
        (3072, 4096, 4096, 3072),
        (3072, 4096, 3073, 3072),
        (3072, 4096, 3072, 2304),
        (3072, 4096, 2048, 1536),
        (0, 4096, 2048, 0),
        (5000, 4096, 4096, 3072),
        (5000, 0, 4096, 3072),
        (1, 4096, 1, 1),
    ],
)
def test_a_limit_that_would_come_too_late_is_lowered(soft: int, configured: int, real: int, found: int) -> None:
    assert policy.lowered_limit(soft, configured, real) == found


@pytest.mark.parametrize(
    ("window", "threshold"),
    [(32_768, None), (78_000, None), (79_000, 13_464), (262_144, 196_608), (327_680, 262_144), (1_000_000, 800_000)],
)
def test_when_dsh_compacts_by_itself(window: int, threshold: int | None) -> None:
    assert policy.dsh_threshold(window) == threshold


def test_a_soft_limit_below_what_dsh_does_by_itself_is_worth_a_warning() -> None:
    assert policy.limit_warnings(24_576, 32_768, 32_768) == ()
    assert policy.limit_warnings(0, 262_144, 262_144) == ()
    [told] = policy.limit_warnings(150_000, 262_144, 262_144)
    assert "150000" in told
    assert "196608" in told
