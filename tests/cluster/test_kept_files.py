"""The server's saved prefixes and the agent's saved sessions: written over a cluster, read without one, and back."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from agent.store_bench import StoreBench, nano
from cluster.parts import part
from engine.bits import WHOLE_PROMPTS, ask, options, prompt
from fakes.cluster_routes import FakeRoutes
from fakes.gates import PATIENCE_S
from whitedwarf.cli.loading import LoadedModel
from whitedwarf.cluster.pipeline import ClusterModel
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import Reuse, Token
from whitedwarf.server.disk_prefixes import DiskPrefixes
from whitedwarf.server.disk_settings import disk_settings

CONTEXT = 4096
FORMATS = ("packed", "ds4")


@contextmanager
def over_cluster(*cuts: int) -> Iterator[LoadedModel]:
    """The bundled model as the command line loads it, with its layers on several stages."""
    ends = [0, *cuts, 6]
    first, *others = (part("nano", "packed", start, end) for start, end in pairwise(ends))
    routes = FakeRoutes(others)
    try:
        model = ClusterModel.over(first.with_context(CONTEXT), routes)
        yield replace(nano(CONTEXT), transformer=model)
    finally:
        routes.close()


@contextmanager
def serving(loaded: LoadedModel, folder: Path, written_as: str) -> Iterator[Engine]:
    serve = replace(WHOLE_PROMPTS, kv_disk_dir=folder, kv_disk_format=written_as)
    settings = disk_settings(serve, loaded.transformer, loaded.gguf, quality=False)
    assert settings is not None
    with (
        DiskPrefixes(loaded.transformer, loaded.tokenizer(), settings) as store,
        Engine(loaded.transformer, prefix_budget_bytes=1 << 28, store=store) as engine,
    ):
        yield engine


def files(folder: Path) -> dict[str, bytes]:
    """Without the two dates that a header has."""
    return {path.name: path.read_bytes()[48:] for path in sorted(folder.glob("*.kv"))}


@pytest.mark.parametrize("written_as", FORMATS)
def test_prefixes_are_the_same_files_and_are_used_by_every_topology(tmp_path: Path, written_as: str) -> None:
    ids, longer = prompt(300), (*prompt(300), *prompt(40, seed=1))
    folders = {"one": tmp_path / "one", "two": tmp_path / "two", "three": tmp_path / "three"}
    with serving(nano(CONTEXT), folders["one"], written_as) as engine:
        ask(engine, ids)
        expected = ask(engine, longer).tokens
    for name, cuts in (("two", (3,)), ("three", (2, 4))):
        with over_cluster(*cuts) as loaded, serving(loaded, folders[name], written_as) as engine:
            ask(engine, ids)
            assert ask(engine, longer).tokens == expected
        assert files(folders[name]) == files(folders["one"])
    assert files(folders["one"])
    with over_cluster(1) as loaded, serving(loaded, folders["one"], written_as) as engine:
        found = ask(engine, longer)
        assert (found.finished.reuse, found.tokens) == (Reuse.DISK, expected)
    with serving(nano(CONTEXT), folders["three"], written_as) as engine:
        found = ask(engine, longer)
        assert (found.finished.reuse, found.tokens) == (Reuse.DISK, expected)


def continued(loaded: LoadedModel, folder: Path, session_id: str) -> tuple[Token, ...]:
    """What is answered when a session is taken up again."""
    resumed = StoreBench(folder, loaded=loaded).open().open(session_id)
    try:
        assert resumed.saved is not None
        with loaded.engine() as engine:
            session = engine.new_session(resumed.saved)
            done = engine.submit([*resumed.ids, 5], options(5), session=session).result(PATIENCE_S)
            assert done.finished.reused_tokens == len(resumed.ids)
            return done.tokens
    finally:
        resumed.session.close()


def test_an_agents_session_is_continued_with_and_without_a_cluster(tmp_path: Path) -> None:
    session_id = StoreBench(tmp_path / "alone", loaded=nano(CONTEXT)).saved()
    expected = continued(nano(CONTEXT), tmp_path / "alone", session_id)
    with over_cluster(2, 4) as loaded:
        assert StoreBench(tmp_path / "many", loaded=loaded).saved() == session_id
        name = f"{session_id}.kv"
        assert (tmp_path / "many" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
        assert continued(loaded, tmp_path / "alone", session_id) == expected
    assert continued(nano(CONTEXT), tmp_path / "many", session_id) == expected
