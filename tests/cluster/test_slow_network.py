"""Three hosts on slow lines, that lose packets and are cut: the same bits, or one clear error, and the next one works.

The hosts are network namespaces of this machine (tests/fakes/slow_link.py).
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.answering import digest
from cluster.parts import whole
from fakes.cluster_processes import HANG_S, ClusterProcesses, environment
from fakes.slow_link import Host, SlowLink, slow_link, why_not
from whitedwarf.cluster.key_folder import KeyFolder

WHY_NOT = why_not()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "permitted")]


class Coordinator:
    """tests/cluster/answering.py on a host."""

    def __init__(self, host: Host, processes: ClusterProcesses, keys: KeyFolder, wait_s: float) -> None:
        place = f"{host.address}:{processes.port}"
        words = [place, str(keys.folder), str(processes.patience_s), str(wait_s), "32"]
        tests = str(Path(__file__).parents[1])
        variables = environment()
        variables["PYTHONPATH"] = f"{variables['PYTHONPATH']}:{tests}"
        self._errors = processes.folder / "coordinator.log"
        with self._errors.open("w") as file:
            self._process = host.start(
                [sys.executable, "-m", "cluster.answering", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=variables,
            )
        assert self.heard() == "ready", self.said

    @property
    def said(self) -> str:
        return self._errors.read_text()

    def ask(self, num_prompt: int, num_answer: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{num_prompt} {num_answer}\n")
        self._process.stdin.flush()

    def heard(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def until(self, words: str) -> None:
        give_up = time.monotonic() + HANG_S
        while words not in self.said:
            assert time.monotonic() < give_up, self.said
            time.sleep(0.05)

    def close(self) -> None:
        self._process.communicate(timeout=HANG_S)
        assert self._process.returncode == 0, self.said


@pytest.fixture
def link() -> Iterator[SlowLink]:
    with slow_link(3) as line:
        yield line


def test_answers_over_slow_lossy_and_cut_lines_have_the_bits_of_one_process(
    link: SlowLink, processes: ClusterProcesses, keys: KeyFolder
) -> None:
    first, second, third = link.hosts
    processes.patience_s = 3.0
    processes.meet(start=first.start, host=first.address)
    for host, layers in ((second, "2:3"), (third, "4:output")):
        words = ("--layers", layers, "--host", host.address)
        processes.join(*words, start=host.start, host=first.address).until("joined as")
    coordinator = Coordinator(first, processes, keys, wait_s=60.0)
    alone = digest(whole("nano"), 120, 6)
    for delay_s, loss in ((0.0, 0.0), (0.001, 0.0), (0.02, 0.01), (0.08, 0.0)):
        link.delay_s, link.loss = delay_s, loss
        coordinator.ask(120, 6)
        assert coordinator.heard() == alone, coordinator.said
    coordinator.ask(120, 6)
    time.sleep(0.5)  # in the middle of it: at this delay it takes seconds
    link.cut.add(third)
    coordinator.until("waiting for the cluster")
    link.delay_s = 0.0
    link.cut.clear()
    assert coordinator.heard() == alone, coordinator.said
    coordinator.ask(60, 2)
    assert coordinator.heard() == digest(whole("nano"), 60, 2), coordinator.said
    coordinator.close()
