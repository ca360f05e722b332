"""Where a model runs: printed, refused before anything is loaded, and as good as on one card."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from whitedwarf.cli import placing
from whitedwarf.cli.loading import open_model
from whitedwarf.cli.placing import F16_ON_CARDS, plan_model
from whitedwarf.config import DEFAULT_CONTEXT, ModelSettings
from whitedwarf.engine.memory import Probe
from whitedwarf.errors import BackendError, OutOfMemoryError, UsageError
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.model.base import Span
from whitedwarf.weights.placement import Card, Mode
from whitedwarf.weights.store import bundled_model

Call = Callable[[Sequence[str]], tuple[int, str, str]]
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
PROBE = Probe(64 << 30, 60 << 30)
ASK = ("run", "-p", "hi", "-n", "4", "--nothink", "--temp", "0", "-c", "1024")
MIB = 1 << 20


@pytest.fixture
def gguf() -> GgufFile:
    return open_gguf(bundled_model())


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts cards of so many MiB into this machine, in the eyes of `plan_model`."""

    def put(*sizes: int, error: BackendError | None = None) -> None:
        def find_cards(backend: str, total: int, usable: int, budget: int | None = None) -> list[Card]:
            if error is not None:
                raise error
            return [
                Card(f"cuda:{n}", "made up", size * MIB, size * MIB, budget_bytes=budget or size * MIB)
                for n, size in enumerate(sizes)
            ]

        monkeypatch.setattr(placing, "find_cards", find_cards)
        monkeypatch.setattr(placing, "best_backend", lambda: "cuda")

    return put


def plan(gguf: GgufFile, said: list[str], **settings: object) -> placing.Plan:
    return plan_model(ModelSettings(**settings), gguf, PROBE, DEFAULT_CONTEXT, said.append)  # type: ignore[arg-type]


def test_a_block_of_a_file_of_its_own_takes_room_on_the_card(gguf: GgufFile, made_up: Callable[..., None]) -> None:
    made_up(400)
    block = bundled_model().with_name("nano-mtp.gguf")
    alone, with_block = plan(gguf, []).placement, plan(gguf, [], mtp=block).placement
    assert alone is not None
    assert with_block is not None
    with open_gguf(block) as file:
        held = sum(info.size_bytes for info in file.tensors.values())
    assert with_block.shares[0].end_layer == alone.shares[0].end_layer + 1
    (one,), (other,) = alone.shares, with_block.shares
    more = other.dense_bytes + other.experts_bytes - one.dense_bytes - one.experts_bytes
    assert more == pytest.approx(held, rel=0.01)


def test_a_card_with_room_has_the_whole_model(gguf: GgufFile, made_up: Callable[..., None]) -> None:
    made_up(400)
    found = plan(gguf, said := [])
    assert found.placement is not None
    assert (found.backend, found.placement.mode, said) == ("cuda", Mode.WHOLE, [])
    assert found.chunk_tokens == 512


def test_smaller_ones_share_it(gguf: GgufFile, made_up: Callable[..., None]) -> None:
    made_up(24, 24, 24)
    found = plan(gguf, [], context=1024)
    assert found.placement is not None
    assert found.placement.mode in (Mode.WHOLE, Mode.LAYERS)
    made_up(15)
    found = plan(gguf, [], context=1024)
    assert found.placement is not None
    assert found.placement.mode is Mode.HOST_EXPERTS


def test_a_card_that_is_too_small_is_refused_where_it_was_asked_for(
    gguf: GgufFile, made_up: Callable[..., None]
) -> None:
    made_up(6)
    with pytest.raises(OutOfMemoryError, match="too little: use a smaller quantisation, or --cpu"):
        plan(gguf, [], backend="cuda")
    assert plan(gguf, said := []).backend == "cpu"
    assert len(said) == 1
    assert said[0].endswith("the CPU is used (--backend cpu does not say this)")


def test_a_driver_that_does_not_answer_leaves_the_cpu(gguf: GgufFile, made_up: Callable[..., None]) -> None:
    made_up(error=BackendError("backend cuda is not available: no driver"))
    assert plan(gguf, said := []).backend == "cpu"
    assert said == ["backend cuda is not available: no driver; the CPU is used (--backend cpu does not say this)"]
    with pytest.raises(BackendError, match="no driver"):
        plan(gguf, [], backend="cuda")


def test_a_budget_is_the_card_s(gguf: GgufFile, made_up: Callable[..., None]) -> None:
    made_up(400)
    found = plan(gguf, [], context=1024, device_memory="15MiB")
    assert found.placement is not None
    assert found.placement.shares[0].usable_bytes == 15 * MIB


@pytest.mark.parametrize("text", ["much", "0", "-1G"])
def test_a_budget_that_is_none_is_refused(gguf: GgufFile, made_up: Callable[..., None], text: str) -> None:
    made_up(400)
    with pytest.raises(UsageError, match="--device-memory: got"):
        plan(gguf, [], device_memory=text)


def test_a_budget_without_a_card_is_refused(gguf: GgufFile) -> None:
    with pytest.raises(UsageError, match="--device-memory is for backends on cards"):
        plan(gguf, [], backend="cpu", device_memory="1G")


def test_what_is_said_of_types_on_cards_is_true() -> None:
    pytest.importorskip("torch")
    from whitedwarf.ops.twins.planes import TAKEN_AS_F16

    assert F16_ON_CARDS == TAKEN_AS_F16


@needs_torch
def test_run_prints_the_plan_and_answers_like_the_cpu(in_process: Call) -> None:
    code, truth, _ = in_process([*ASK, "--cpu"])
    assert code == 0
    for misses in ("cpu", "copy"):
        flags = ["--backend", "torch", "--device-memory", "15M", "--expert-misses", misses]
        code, out, told = in_process([*ASK, *flags])
        assert (code, out) == (0, truth)
        assert "whitedwarf: 9.56 MiB of experts in host memory; all else on cpu (" in told
        assert "an expert is copied in " in told
    code, out, told = in_process([*ASK, "--backend", "torch"])
    assert (code, out) == (0, truth)
    assert "whitedwarf: whole model on cpu (PyTorch on this CPU): 7.93 MiB of weights, 9.56 MiB of experts" in told


@needs_torch
def test_too_little_memory_ends_with_exit_code_1_before_anything_is_loaded(in_process: Call) -> None:
    code, out, told = in_process([*ASK, "--backend", "torch", "--device-memory", "5M"])
    assert (code, out) == (1, "")
    assert "even with all experts in host memory the model needs" in told
    assert "cpu (PyTorch on this CPU) has 4.77 MiB to give" in told


@needs_torch
def test_doctor_prints_the_plan(in_process: Call) -> None:
    code, out, _ = in_process(["doctor", "--backend", "torch", "--device-memory", "22M"])
    assert code == 0
    assert "plan        9.56 MiB of experts in host memory; all else on cpu (" in out
    assert "plan        cpu (PyTorch on this CPU): layers 0-5, 7.93 MiB of weights" in out
    code, out, _ = in_process(["doctor", "--backend", "torch", "--device-memory", "22M", "--json"])
    placement = json.loads(out)["model"]["placement"]
    assert (code, placement["mode"]) == (0, "experts in host memory")
    assert placement["shares"][0]["usable_bytes"] == 22_000_000
    code, out, _ = in_process(["doctor", "--backend", "torch", "--device-memory", "5M"])
    assert code == 1
    assert "too little" in out


def imported(*arguments: str, folder: Path) -> tuple[int, str]:
    """Run the command line in a process of its own; its exit code, and whether torch or mlx were imported."""
    code = (
        "import sys; from whitedwarf.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: status = end.code\n"
        "else: status = 0\n"
        "print('heavy:', sorted({'torch', 'triton', 'mlx'} & set(sys.modules)), status or 0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, cwd=folder, timeout=120
    )
    return ended.returncode, ended.stdout.splitlines()[-1]


@pytest.mark.skipif(placing.best_backend() != "cpu", reason="a card is here, and is used")
@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("run", "--help"),
        ("run", "-p", "hi", "-n", "1", "--nothink"),
        ("tokens", "hi"),
        ("gguf", "inspect", str(bundled_model())),
        ("models",),
    ],
    ids=" ".join,
)
def test_nobody_imports_torch_without_a_card(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert imported(*arguments, folder=tmp_path) == (0, "heavy: [] 0")


@needs_torch
def test_what_is_copied_is_counted() -> None:
    loaded = open_model(
        ModelSettings(
            backend="torch", device_memory="15M", context=1024, expert_misses="copy", model=str(bundled_model())
        )
    )
    assert loaded.on_cards is not None
    before = loaded.on_cards.traffic()
    assert (before["hits"], before["misses"]) == (0, 0)
    assert before["slots"] >= 2
    loaded.transformer.forward([Span(loaded.transformer.new_state(), np.arange(3, dtype=np.int32), "none")])
    told = loaded.on_cards.traffic()
    assert told["hits"] + told["misses"] >= 2 * 6  # at least the experts of one token in each layer
    assert told["loaded_bytes"] > 0
    assert 0 < told["held"] <= told["slots"]
