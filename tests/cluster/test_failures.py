"""Machines that die, stop or are not what they should be: the answer is the same, or there is one clear error, and the
next request works. Real processes on this machine, with TLS and the bundled model."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import numpy as np
import pytest

from cluster.parts import tokens, whole
from fakes.cluster_processes import ClusterProcesses
from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.cli.main import main
from whitedwarf.cluster.key_folder import KeyFolder
from whitedwarf.cluster.pipeline import ClusterModel
from whitedwarf.config import ClusterSettings, ModelSettings
from whitedwarf.errors import ClusterError
from whitedwarf.model.base import Ids, Logits, Model, Span

pytestmark = pytest.mark.slow
OTHER_VERSION = """
import sys
import whitedwarf
whitedwarf.__version__ = "0.0.9"
from whitedwarf.cli.main import main
sys.exit(main())
"""


def prefilled(model: Model, ids: Ids, reached: Callable[[int], None] = lambda position: None) -> tuple[object, Logits]:
    """A state that has read `ids` in pieces, and the logits after the last."""
    state, logits = model.new_state(), None
    for start in range(0, len(ids), 40):
        reached(start)
        is_last = start + 40 >= len(ids)
        (logits,) = model.forward([Span(state, ids[start : start + 40], "last" if is_last else "none")])
    assert logits is not None
    return state, logits[0]


def answer(model: Model, ids: Ids, num_tokens: int, reached: Callable[[int], None] = lambda position: None) -> bytes:
    """The logits of a greedy answer; `reached` hears of every position, just before it."""
    state, row = prefilled(model, ids, reached)
    rows = [row]
    for position in range(num_tokens - 1):
        reached(len(ids) + position)
        (logits,) = model.forward([Span(state, np.array([rows[-1].argmax()], np.int32))])  # type: ignore[arg-type]
        rows.append(logits[0])
    return np.array(rows).tobytes()


@contextmanager
def coordinator(processes: ClusterProcesses, keys: KeyFolder, wait_s: float = 60.0) -> Iterator[ClusterModel]:
    cluster = ClusterSettings(
        cluster=f"127.0.0.1:{processes.port}",
        cluster_keys=keys.folder,
        layers="0:1",
        cluster_patience=processes.patience_s,
        cluster_wait=wait_s,
    )
    loaded: LoadedModel = open_model(ModelSettings(backend="cpu", threads=1, cluster=cluster))
    assert loaded.coordinator is not None
    with closing(loaded.coordinator):
        assert isinstance(loaded.transformer, ClusterModel)
        yield loaded.transformer


def once_at(position: int, happens: Callable[[], object]) -> Callable[[int], None]:
    """Something that happens when the answer has come so far."""
    happened = []

    def reached(now: int) -> None:
        if now >= position and not happened:
            happened.append(now)
            happens()

    return reached


def test_members_that_die_and_stop_cost_nothing_but_time(processes: ClusterProcesses, keys: KeyFolder) -> None:
    processes.meet()
    first, last = processes.join("--layers", "2:3"), processes.join("--layers", "4:output")
    ids = tokens(330)
    alone = answer(whole("nano"), ids, 20)
    first.until("joined as")
    last.until("joined as")
    with coordinator(processes, keys) as model:
        assert answer(model, ids, 20) == alone
        spare = processes.join()  # takes what nobody else has
        spare.until("joined as")
        assert answer(model, ids, 20, once_at(120, first.kill)) == alone  # in the middle of the prompt
        spare.until("layers 2:3 are loaded")
        assert answer(model, ids, 20, once_at(340, last.kill)) == alone  # in the middle of the answer
        spare.until("layers 2:output are loaded")
        again = processes.join()
        again.until("joined as")
        stop = once_at(340, lambda: spare.kill(signal.SIGSTOP))
        assert answer(model, ids, 20, stop) == alone  # cut off, and another takes its place
        spare.kill(signal.SIGCONT)
        spare.until("joined as", times=2)  # it came back, as one that has lost its sessions
        assert answer(model, ids, 20) == alone


def test_without_members_a_request_fails_with_what_lacks_and_the_next_one_works(
    processes: ClusterProcesses, keys: KeyFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    processes.meet()
    member = processes.join("--layers", "2:output")
    member.until("joined as")
    ids = tokens(100)
    with coordinator(processes, keys, wait_s=0.5) as model:
        alone = answer(whole("nano"), ids, 3)
        assert answer(model, ids, 3) == alone
        member.kill()
        with pytest.raises(ClusterError, match=r"not whole after 0\.5 s .*layers 2 to 5 of 6 lack"):
            answer(model, ids, 3)
        assert "waiting for the cluster" in capsys.readouterr().err
        processes.join("--layers", "2:output").until("joined as")
        assert answer(model, ids, 3) == alone


def test_other_versions_and_models_are_told_so_at_both_ends(
    processes: ClusterProcesses, keys: KeyFolder, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    processes.meet()
    place = f"127.0.0.1:{processes.port}"
    old = processes.run_python(OTHER_VERSION, "cluster", "join", place)
    assert old.process.wait(120) == 1
    assert "whitedwarf 0.0.9" in old.said
    assert "install the same" in old.said
    other = tmp_path / "other.gguf"
    assert main(["gguf", "synth", str(other), "--shape", "tiny"]) == 0
    processes.join("--layers", "2:output").until("joined as")
    strange = processes.join("-m", str(other))
    assert strange.process.wait(120) == 1
    assert "files of the same model" in strange.said
    assert processes.all[0].process.poll() is None
    capsys.readouterr()
    words = ["run", "-m", str(other), "-p", "x", "--cluster", place, "--layers", "0:1", "--cluster-wait", "0"]
    assert main([*words, *processes.patience()]) == 1
    assert "files of the same model" in capsys.readouterr().err


def test_ctrl_c_ends_an_answer_and_a_dead_coordinator_leaves_no_session(
    processes: ClusterProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    processes.meet()
    processes.join("--layers", "2:output").until("joined as")
    words = ["run", "-p", "Tell me a long story.", "--layers", "0:1", "--nothink", "-n", "4000", "--debug"]
    asked = processes.coordinate(*words, "--temp", "3")
    asked.until("work 12:")
    asked.process.send_signal(signal.SIGINT)
    assert asked.process.wait(60) == 130
    assert "Traceback" not in asked.said
    killed = processes.coordinate(*words, "--temp", "3")
    killed.until("work 12:")
    assert status(processes, capsys)["num_routes"] == 1
    killed.kill()
    give_up = time.monotonic() + 60
    while (told := status(processes, capsys))["num_routes"] and time.monotonic() < give_up:
        time.sleep(0.1)
    assert (told["num_routes"], told["num_sessions"]) == (0, 0)
    assert threading.active_count() < 50


def status(processes: ClusterProcesses, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """Of the only member."""
    capsys.readouterr()
    assert main(["cluster", "status", f"127.0.0.1:{processes.port}", "--json", *processes.patience()]) == 0
    (member,) = json.loads(capsys.readouterr().out)["members"]
    found: dict[str, object] = member
    return found
