"""The link under the default name."""

from pathlib import Path

from whitedwarf.weights.default_link import link_default
from whitedwarf.weights.store import DEFAULT_NAME, ModelRule, find_model


def model(folder: Path, name: str) -> Path:
    path = folder / "gguf" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(name.encode())
    return path


def test_the_default_name_points_to_the_model(tmp_path: Path) -> None:
    linked = link_default(model(tmp_path, "a.gguf"), tmp_path)
    assert linked.is_default
    link = tmp_path / DEFAULT_NAME
    assert str(link.readlink()) == "gguf/a.gguf"  # relative: the folder may be moved
    choice = find_model(None, {}, tmp_path)
    assert (choice.rule, choice.path.read_bytes()) == (ModelRule.WORKING_FOLDER, b"a.gguf")
    assert "as before" in link_default(tmp_path / "gguf" / "a.gguf", tmp_path).text


def test_a_link_is_replaced_even_where_it_points_nowhere(tmp_path: Path) -> None:
    link = tmp_path / DEFAULT_NAME
    link.symlink_to("nowhere.gguf")
    assert link_default(model(tmp_path, "a.gguf"), tmp_path).is_default
    assert link_default(model(tmp_path, "b.gguf"), tmp_path).is_default
    assert link.read_bytes() == b"b.gguf"
    assert sorted(path.name for path in tmp_path.iterdir()) == [DEFAULT_NAME, "gguf"]


def test_a_model_under_the_default_name_is_kept(tmp_path: Path) -> None:
    (tmp_path / DEFAULT_NAME).write_bytes(b"mine")
    linked = link_default(model(tmp_path, "a.gguf"), tmp_path)
    assert not linked.is_default
    assert "it is kept; use the new model with -m" in linked.text
    assert (tmp_path / DEFAULT_NAME).read_bytes() == b"mine"


def test_where_no_link_can_be_made_that_is_told(tmp_path: Path) -> None:
    linked = link_default(model(tmp_path, "a.gguf"), tmp_path / "missing")
    assert (linked.is_default, "cannot make the link" in linked.text) == (False, True)
