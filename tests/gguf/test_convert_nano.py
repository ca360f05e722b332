"""The bundled model is what its script makes, small enough to travel, and complete."""

import runpy
import sys
from pathlib import Path

import pytest

from whitedwarf.gguf.census import check_census
from whitedwarf.gguf.hparams import from_metadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.types import GgmlType

ROOT = Path(__file__).parent.parent.parent
SCRIPT = ROOT / "scripts" / "make_nano.py"
NANO = ROOT / "src" / "whitedwarf" / "data" / "nano.gguf"
SOURCE = ROOT.parent / "shared" / "nano" / "official"


def test_the_bundled_model_is_complete_and_small() -> None:
    with open_gguf(NANO) as model:
        hp = from_metadata(model.metadata, model.tensors)
        check_census(hp, model.tensors, NANO.name)
        assert NANO.stat().st_size < 25_000_000
        assert model.metadata["general.license"] == "MIT"


def test_only_matrices_of_the_bundled_model_are_rounded() -> None:
    with open_gguf(NANO) as model:
        for name, tensor in model.tensors.items():
            steers = "hc_" in name or name.endswith(("ffn_gate_inp.weight", "indexer.proj.weight", "_ape.weight"))
            if len(tensor.shape) == 1 or steers:
                assert tensor.type is GgmlType.F32, name


def test_the_licence_note_lies_beside_the_bundled_model() -> None:
    assert "MIT" in (NANO.parent / "NANO.md").read_text()


@pytest.mark.shared
@pytest.mark.skipif(not SOURCE.exists(), reason="needs the workshop's ../shared/nano/official")
def test_the_script_makes_the_same_bytes_of_the_same_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        target = tmp_path / name / "nano.gguf"
        monkeypatch.setattr(sys, "argv", ["make_nano.py", "--source", str(SOURCE), "--target", str(target)])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        assert stopped.value.code == 0
        assert [path.name for path in target.parent.iterdir()] == ["nano.gguf"]  # that checkpoint has no MTP block
        made.append(target.read_bytes())
    assert made[0] == made[1]
    with open_gguf(tmp_path / "first" / "nano.gguf") as source, open_gguf(NANO) as bundled:
        kinds = [{name: tensor.shape for name, tensor in model.tensors.items()} for model in (source, bundled)]
    assert kinds[0] == kinds[1]
