"""A short soak on every run; WHITEDWARF_SOAK_S=1800 makes it the half hour of the acceptance."""

import os
import sys

import pytest

from server.soak import slope, soak

SECONDS = float(os.environ.get("WHITEDWARF_SOAK_S", "16"))


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("leg", ["script", "nano"])
def test_mixed_clients_lose_nothing_and_leave_nothing_behind(leg: str) -> None:
    report = soak(leg, SECONDS / 2, seed=4)
    assert report.complaints == []
    assert report.outcomes["good: answered"] > 10


def test_a_slope_is_that_of_the_line_through_the_points() -> None:
    assert slope([0.0, 1.0, 2.0], [5.0, 7.0, 9.0]) == pytest.approx(2.0)
    assert slope([1.0], [1.0]) == 0.0
