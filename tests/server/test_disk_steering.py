"""States computed under a steering serve nobody without it, nor under another one: on disk, in memory, in sessions."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.cli.serving import disk_prefixes
from whitedwarf.config import ModelSettings, ServeSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.generation import Completion
from whitedwarf.engine.request import GREEDY, GenerateOptions, Reuse
from whitedwarf.errors import UsageError
from whitedwarf.model.steering import Steering
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.past import Past
from whitedwarf.weights.store import bundled_model

PATIENCE_S = 60.0
OPTIONS = GenerateOptions(max_tokens=12, sampling=GREEDY)
PROMPT = np.random.default_rng(1).integers(100, 4000, 700).tolist()
FORMATS = pytest.mark.parametrize("form", ["packed", "ds4"])


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return open_model(ModelSettings(model=str(bundled_model()), context=2048))


def steered(loaded: LoadedModel, ffn: float, seed: int = 1) -> LoadedModel:
    hp = loaded.transformer.config.hp
    values = np.random.default_rng(seed).normal(size=(len(hp.compress_ratios), hp.hidden_size))
    directions = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    return loaded.steered(Steering(directions, ffn))


def served(tmp_path: Path, form: str = "packed") -> ServeSettings:
    return ServeSettings(
        kv_disk_dir=tmp_path / "kv",
        kv_cache_min_tokens=64,
        kv_cache_boundary_align_tokens=256,
        kv_disk_format=form,  # type: ignore[arg-type]
    )


def ask(loaded: LoadedModel, tokenizer: Tokenizer, serve: ServeSettings, ids: Sequence[int] = PROMPT) -> Completion:
    """One request of a server's life."""
    with (
        disk_prefixes(loaded, tokenizer, serve, Past(tokenizer)) as store,
        Engine(loaded.transformer, store=store) as engine,
    ):
        return engine.submit(ids, OPTIONS).result(PATIENCE_S)


@FORMATS
def test_states_on_disk_serve_only_the_steering_they_were_made_under(
    form: str, loaded: LoadedModel, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    serve = served(tmp_path, form)
    models = [loaded, steered(loaded, 40.0), steered(loaded, -40.0), steered(loaded, 40.0, seed=2)]
    first = [ask(model, tokenizer, serve) for model in models]
    assert [answer.finished.reuse for answer in first] == [Reuse.NONE] * 4  # though the same prompt was saved before
    assert len({tuple(answer.ids) for answer in first}) == 4
    again = [ask(model, tokenizer, serve) for model in models]
    assert [answer.finished.reuse for answer in again] == [Reuse.DISK] * 4
    assert [answer.ids for answer in again] == [answer.ids for answer in first]


def test_what_is_saved_under_a_steering_lies_where_nobody_else_looks(
    loaded: LoadedModel, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    serve, model = served(tmp_path), steered(loaded, 1.0)
    ask(model, tokenizer, serve)
    assert model.transformer.steering is not None
    kept = tmp_path / "kv" / f"steered-{model.transformer.steering.digest}"
    assert list(kept.glob("*.kv"))
    assert not list((tmp_path / "kv").glob("*.kv"))
    assert [path.stat().st_mode & 0o777 for path in (kept, kept.parent)] == [0o700, 0o700]


def test_a_file_that_was_moved_is_not_used(loaded: LoadedModel, tokenizer: Tokenizer, tmp_path: Path) -> None:
    serve = served(tmp_path)
    ask(steered(loaded, 1.0), tokenizer, serve)
    for file in (tmp_path / "kv").glob("*/*.kv"):
        shutil.move(file, tmp_path / "kv" / file.name)
    assert ask(loaded, tokenizer, serve).finished.reuse is Reuse.NONE


def test_a_session_is_not_continued_under_another_steering(loaded: LoadedModel) -> None:
    with loaded.engine() as plain, steered(loaded, 1.0).engine() as other:
        session = plain.new_session()
        plain.submit(PROMPT, OPTIONS, session=session).result(PATIENCE_S)
        with pytest.raises(UsageError, match="belongs to another engine"):
            other.submit(PROMPT, OPTIONS, session=session)


def test_memory_is_reused_under_a_steering_with_the_same_tokens(loaded: LoadedModel) -> None:
    model = steered(loaded, 40.0)
    with Engine(model.transformer, prefix_budget_bytes=1 << 26) as engine:
        answers = [engine.submit(PROMPT, OPTIONS).result(PATIENCE_S) for _ in range(2)]
    assert answers[0].finished.reuse is Reuse.NONE
    assert answers[1].finished.reused_tokens > 0
    with loaded.engine() as engine:
        assert engine.submit(PROMPT, OPTIONS).result(PATIENCE_S).ids != answers[0].ids
    assert answers[0].ids == answers[1].ids
