"""Store: the rules that choose a model, and tensors under their canonical names."""

from pathlib import Path

import numpy as np
import pytest

from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.types import GgmlType
from whitedwarf.gguf.writer import GgufWriter
from whitedwarf.weights.store import ModelRule, bundled_model, find_model, load_tensors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("given.gguf", "named.gguf", "ds4flash.gguf"):
        (tmp_path / name).touch()
    return tmp_path


def test_the_path_given_comes_first(folder: Path) -> None:
    environment = {"WHITEDWARF_MODEL": str(folder / "named.gguf")}
    choice = find_model(folder / "given.gguf", environment, folder)
    assert (choice.path.name, choice.rule) == ("given.gguf", ModelRule.ARGUMENT)
    assert str(choice).endswith("given.gguf (given with -m)")


def test_then_the_environment_variable(folder: Path) -> None:
    choice = find_model(None, {"WHITEDWARF_MODEL": str(folder / "named.gguf")}, folder)
    assert (choice.path.name, choice.rule) == ("named.gguf", ModelRule.ENVIRONMENT)


@pytest.mark.parametrize("environment", [{}, {"WHITEDWARF_MODEL": ""}])
def test_then_the_file_in_the_current_folder(folder: Path, environment: dict[str, str]) -> None:
    choice = find_model(None, environment, folder)
    assert (choice.path.name, choice.rule) == ("ds4flash.gguf", ModelRule.WORKING_FOLDER)


def test_then_the_bundled_model(tmp_path: Path) -> None:
    if not bundled_model().exists():
        with pytest.raises(UsageError, match=r"nano\.gguf .*bundled"):
            find_model(None, {}, tmp_path)
        return
    assert find_model(None, {}, tmp_path).rule is ModelRule.BUNDLED


@pytest.mark.parametrize(
    ("environment", "words"), [({}, "given with -m"), ({"WHITEDWARF_MODEL": "/nowhere/b.gguf"}, "WHITEDWARF_MODEL")]
)
def test_a_missing_file_is_an_error_that_names_the_rule(folder: Path, environment: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find_model(None if environment else "/nowhere/a.gguf", environment, folder)


def test_a_folder_is_not_a_model(folder: Path) -> None:
    with pytest.raises(UsageError, match="that is a folder"):
        find_model(folder, {}, folder)


def test_a_dangling_default_link_is_reported(tmp_path: Path) -> None:
    (tmp_path / "ds4flash.gguf").symlink_to(tmp_path / "gone.gguf")
    with pytest.raises(UsageError, match="no such file"):
        find_model(None, {}, tmp_path)


def write(path: Path, names: list[str]) -> None:
    with GgufWriter(path, {}, [(name, GgmlType.F32, (2,)) for name in names]) as writer:
        for number, name in enumerate(names):
            writer.write(name, np.full(2, number, np.float32))


def test_tensors_come_under_canonical_names(tmp_path: Path) -> None:
    write(tmp_path / "old.gguf", ["hc_head_base", "blk.2.attn_compress_norm.weight"])
    with open_gguf(tmp_path / "old.gguf") as gguf:
        tensors = load_tensors(gguf)
        assert list(tensors) == ["output_hc_base.weight", "blk.2.attn_compressor_norm.weight"]
        assert tensors["blk.2.attn_compressor_norm.weight"].floats().tolist() == [1.0, 1.0]


def test_two_spellings_of_one_tensor_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "twice.gguf", ["hc_head_base", "output_hc_base.weight"])
    with open_gguf(tmp_path / "twice.gguf") as gguf, pytest.raises(FileFormatError, match=r"both mean output_hc_base"):
        load_tensors(gguf)
