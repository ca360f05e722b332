"""Memory that is taken away: in steps, only while there is some, and held."""

import errno

import psutil
import pytest

from whitedwarf.cli import simulated_use
from whitedwarf.cli.simulated_use import SimulatedUse
from whitedwarf.engine.memory import Probe
from whitedwarf.errors import OutOfMemoryError

MIB = 1 << 20


class Unlockable:
    """A system whose limit allows nothing to be locked."""

    def lock(self, address: int, size_bytes: int) -> int:
        return errno.EPERM

    def unlock(self, address: int, size_bytes: int) -> None: ...

    def room_bytes(self) -> int | None:
        return 0


def plenty() -> Probe:
    return Probe(1 << 40, 1 << 40)


def test_it_is_really_there_and_goes_with_the_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_use, "STEP_BYTES", 16 * MIB)
    before = psutil.Process().memory_info().rss
    taken = SimulatedUse(40 * MIB, plenty, Unlockable())
    held = psutil.Process().memory_info().rss
    assert held - before > 32 * MIB
    assert "could be locked" in taken.describe(40 * MIB)
    del taken
    assert psutil.Process().memory_info().rss < held - 24 * MIB


def test_more_than_there_is_is_refused_before_any_is_taken() -> None:
    with pytest.raises(OutOfMemoryError, match=r"1\.0 GiB were asked for; only 10\.0 MiB are left; ask for less"):
        SimulatedUse(1 << 30, lambda: Probe(1 << 40, 10 * MIB), Unlockable())


def test_what_runs_out_on_the_way_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_use, "STEP_BYTES", MIB)
    left = iter([4 * MIB, 2 * MIB, MIB, MIB // 2])
    with pytest.raises(OutOfMemoryError, match=r"after 2\.0 MiB only 512\.0 KiB are left"):
        SimulatedUse(4 * MIB, lambda: Probe(1 << 40, next(left)), Unlockable())


def test_none_is_none() -> None:
    assert SimulatedUse(0, plenty, Unlockable()).locked_bytes == 0
