"""The models that lie on this machine."""

from pathlib import Path

import pytest

from whitedwarf.gguf.synth import synthesise
from whitedwarf.weights.library import ModelEntry, list_models, model_folder
from whitedwarf.weights.store import BUNDLED_NAME, DEFAULT_NAME


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    synthesise(tmp_path / "one.gguf", "tiny", layers=2, quant="q2")
    synthesise(tmp_path / "two.gguf", "tiny", layers=2, quant="q8", split=2)
    return tmp_path


def listed(folder: Path, default: Path | None = None) -> dict[str, ModelEntry]:
    entries = list_models([folder], default)
    assert entries[-1].name == BUNDLED_NAME  # last, and always
    return {entry.name: entry for entry in entries[:-1]}


def test_models_are_listed_with_what_they_are(folder: Path) -> None:
    entries = listed(folder)
    assert list(entries) == ["one.gguf", "two"]
    one, two = entries.values()
    assert (one.num_files, one.size_bytes) == (1, (folder / "one.gguf").stat().st_size)
    assert one.shape.startswith("2 layers, width ")
    assert "experts" in one.shape
    assert "Q2_K" in one.quantisation
    assert (one.problem, two.problem) == (None, None)
    shards = sorted(folder.glob("two-*.gguf"))
    assert (two.num_files, two.path) == (2, str(shards[0]))
    assert two.size_bytes == sum(shard.stat().st_size for shard in shards)
    assert "Q8_0" in two.quantisation


def test_the_default_is_marked_and_listed_once_though_a_link_means_it_too(folder: Path) -> None:
    (folder / DEFAULT_NAME).symlink_to("one.gguf")
    entries = listed(folder, folder / DEFAULT_NAME)
    assert [(entry.name, entry.is_default) for entry in entries.values()] == [("one.gguf", True), ("two", False)]


def test_a_default_elsewhere_is_listed_too(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    entries = listed(tmp_path_factory.mktemp("empty"), folder / "one.gguf")
    assert entries["one.gguf"].is_default


def test_a_model_that_only_links_name_is_listed_by_its_link(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = tmp_path_factory.mktemp("store")
    (folder / "one.gguf").rename(store / "5fd2")  # as the hub's own cache keeps files
    (folder / "one.gguf").symlink_to(store / "5fd2")
    (folder / DEFAULT_NAME).symlink_to("one.gguf")
    entries = list_models([folder], folder / DEFAULT_NAME)
    assert [(entry.name, entry.is_default) for entry in entries] == [
        ("two", False),
        (BUNDLED_NAME, False),
        (DEFAULT_NAME, True),
    ]


def test_what_is_no_model_is_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and no more")
    (tmp_path / "begun.gguf.abc.part").write_bytes(b"12345")
    (tmp_path / "notes.txt").write_bytes(b"")
    (tmp_path / "dangling.gguf").symlink_to("nowhere")
    entries = listed(tmp_path)
    assert list(entries) == ["begun.gguf.abc.part", "broken.gguf"]
    assert "not finished" in (entries["begun.gguf.abc.part"].problem or "")
    assert entries["broken.gguf"].problem


def test_an_incomplete_model_says_so_once_for_each_of_its_files(folder: Path) -> None:
    next(folder.glob("two-00002*")).unlink()
    problem = listed(folder)["two-00001-of-00002.gguf"].problem
    assert problem is not None
    assert "missing" in problem


def test_folders_that_are_not_there_are_passed_over(tmp_path: Path) -> None:
    assert listed(tmp_path / "nowhere") == {}


def test_the_folder_of_pull_comes_from_the_environment() -> None:
    assert model_folder({}) == Path("gguf")
    assert model_folder({"DS4_GGUF_DIR": "/models"}) == Path("/models")
