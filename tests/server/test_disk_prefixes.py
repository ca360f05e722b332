"""States of prompts outlive the engine: the bundled model, a folder, engines one after another."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.cli.serving import disk_prefixes
from whitedwarf.config import ModelSettings, ServeSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.generation import Completion
from whitedwarf.engine.prefix import SaveReason
from whitedwarf.engine.request import GREEDY, GenerateOptions, Reuse
from whitedwarf.errors import UsageError
from whitedwarf.kvstore.file import KvFile
from whitedwarf.kvstore.header import Reason
from whitedwarf.kvstore.model_facts import model_mark
from whitedwarf.kvstore.payload import PayloadKind
from whitedwarf.model.base import Span
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.past import Past
from whitedwarf.server.disk_prefixes import MAX_WAITING, DiskPrefixes
from whitedwarf.server.disk_settings import disk_limits, disk_settings
from whitedwarf.weights.store import bundled_model

PATIENCE_S = 60.0
MIN_TOKENS = 64
OPTIONS = GenerateOptions(max_tokens=12, sampling=GREEDY)
PROMPT = np.random.default_rng(1).integers(100, 4000, 700).tolist()
SUFFIX = np.random.default_rng(2).integers(100, 4000, 40).tolist()


def opened(kv_cache: str = "packed", context: int = 2048) -> LoadedModel:
    return open_model(ModelSettings(model=str(bundled_model()), context=context, kv_cache=kv_cache))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return opened()


@pytest.fixture
def serve(tmp_path: Path) -> ServeSettings:
    return ServeSettings(
        kv_disk_dir=tmp_path / "kv", kv_cache_min_tokens=MIN_TOKENS, kv_cache_boundary_align_tokens=256
    )


@pytest.fixture
def ask(tokenizer: Tokenizer) -> Callable[..., Completion]:
    """One request of an engine that begins and ends with it."""

    def ask(
        loaded: LoadedModel,
        serve: ServeSettings,
        ids: Sequence[int],
        *,
        ram_bytes: int = 0,
        options: GenerateOptions = OPTIONS,
    ) -> Completion:
        with (
            disk_prefixes(loaded, tokenizer, serve, Past(tokenizer)) as store,
            Engine(loaded.transformer, prefix_budget_bytes=ram_bytes, store=store) as engine,
        ):
            return engine.submit(ids, options).result(PATIENCE_S)

    return ask


def files(serve: ServeSettings) -> dict[int, Reason]:
    """Lengths and reasons of what was written."""
    assert serve.kv_disk_dir is not None
    found = {}
    for path in serve.kv_disk_dir.glob("*.kv"):
        with KvFile(path) as file:
            found[file.header.num_tokens] = file.header.reason
    return found


def kinds(serve: ServeSettings) -> dict[int, PayloadKind]:
    """Lengths and formats of what was written."""
    assert serve.kv_disk_dir is not None
    found = {}
    for path in serve.kv_disk_dir.glob("*.kv"):
        with KvFile(path) as file:
            found[file.header.num_tokens] = file.header.payload_kind
    return found


@pytest.mark.parametrize("written_as", ["packed", "ds4"])
@pytest.mark.parametrize("kv_cache", ["packed", "f32"])
def test_the_next_engine_goes_on_from_the_file_with_the_same_tokens(ask, serve, kv_cache, written_as) -> None:
    loaded, serve = opened(kv_cache), replace(serve, kv_disk_format=written_as)
    first = ask(loaded, serve, PROMPT)
    assert first.finished.reuse is Reuse.NONE
    assert files(serve) == {512: Reason.COLD}  # 700 - 32, rounded down to 256s
    longer = [*PROMPT, *SUFFIX]
    warm = ask(loaded, serve, longer)
    assert (warm.finished.reuse, warm.finished.reused_tokens) == (Reuse.DISK, 512)
    assert warm.ids == ask(loaded, replace(serve, kv_disk_dir=None), longer).ids
    assert ask(loaded, serve, PROMPT).ids == first.ids


def test_files_of_either_format_are_gone_on_from_whichever_is_written(ask, loaded, serve) -> None:
    ds4, longer = replace(serve, kv_disk_format="ds4"), [*PROMPT, *SUFFIX]
    cold = ask(loaded, replace(serve, kv_disk_dir=None), longer)
    ask(loaded, serve, PROMPT[:300])
    assert ask(loaded, ds4, longer).finished.reused_tokens == 256
    assert sorted(kinds(serve).values()) == [PayloadKind.PACKED]  # nothing is saved cold of what was found
    ask(loaded, ds4, [*PROMPT[:257], *SUFFIX], ram_bytes=1 << 28)
    assert set(kinds(serve).values()) == {PayloadKind.PACKED, PayloadKind.DS4}
    for written_as in (serve, ds4):
        warm = ask(loaded, written_as, longer)
        assert (warm.finished.reuse, warm.ids) == (Reuse.DISK, cold.ids)


def test_prompts_that_were_found_do_not_keep_others_from_being_saved(loaded, serve, tokenizer) -> None:
    a, b = prompt(11, 700), prompt(12, 700)
    with (
        disk_prefixes(loaded, tokenizer, serve, Past(tokenizer)) as store,
        Engine(loaded.transformer, prefix_budget_bytes=0, store=store) as engine,
    ):
        engine.submit(a, OPTIONS).result(PATIENCE_S)
        while not files(serve):
            time.sleep(0.01)
        assert engine.submit(a, OPTIONS).result(PATIENCE_S).finished.reuse is Reuse.DISK
        engine.submit(b, OPTIONS).result(PATIENCE_S)
    assert len(list(serve.kv_disk_dir.glob("*.kv"))) == 2


def test_the_first_tokens_that_all_prompts_share_keep_none_from_being_saved(loaded, serve, tokenizer) -> None:
    with (
        disk_prefixes(loaded, tokenizer, serve, Past(tokenizer)) as store,
        Engine(loaded.transformer, prefix_budget_bytes=1 << 28, store=store) as engine,
    ):
        engine.submit([*PROMPT[:10], *prompt(12, 10)], OPTIONS).result(PATIENCE_S)
        assert engine.submit(PROMPT, OPTIONS).result(PATIENCE_S).finished.reused_tokens == 10
        while not files(serve):
            time.sleep(0.01)
        assert files(serve) == {512: Reason.COLD}


def test_a_packed_file_is_smaller(ask, loaded, serve, tmp_path) -> None:
    ds4 = replace(serve, kv_disk_format="ds4", kv_disk_dir=tmp_path / "ds4")
    ask(loaded, serve, PROMPT)
    ask(loaded, ds4, PROMPT)
    assert 2 * the_file(serve).stat().st_size < the_file(ds4).stat().st_size


def test_a_chat_is_saved_before_its_first_question(ask, loaded, serve, tokenizer) -> None:
    user, assistant = (tokenizer.special_id(token) for token in (SpecialToken.USER, SpecialToken.ASSISTANT))
    ids = [*PROMPT[:300], user, *PROMPT[300:500], assistant]
    ask(loaded, serve, ids, options=replace(OPTIONS, checkpoints=(300, 501)))
    assert files(serve) == {300: Reason.COLD}


def test_a_boundary_at_which_the_engine_did_not_stop_is_made_up_for_by_the_whole_prompt(ask, loaded, serve) -> None:
    ask(loaded, replace(serve, kv_cache_boundary_align_tokens=100), PROMPT)
    assert files(serve) == {700: Reason.COLD}
    warm = ask(loaded, serve, [*PROMPT, *SUFFIX])
    assert warm.finished.reused_tokens == 700


def test_a_prompt_too_long_for_a_cold_save_is_saved_on_its_way(ask, loaded, serve) -> None:
    settings = replace(serve, kv_cache_cold_max_tokens=600, kv_cache_continued_interval_tokens=300)
    ask(loaded, settings, PROMPT)
    assert files(serve) == {512: Reason.CONTINUED}


def test_what_is_in_memory_is_saved_at_the_end(ask, loaded, serve) -> None:
    answer = ask(loaded, serve, PROMPT, ram_bytes=1 << 28)
    end = len(PROMPT) + len(answer.ids) - 1  # the last token was drawn, not run
    assert files(serve) == {512: Reason.COLD, end: Reason.SHUTDOWN}
    warm = ask(loaded, serve, [*PROMPT, *answer.ids, *SUFFIX])
    assert (warm.finished.reuse, warm.finished.reused_tokens) == (Reuse.DISK, end)


def test_short_prompts_are_not_worth_a_file(ask, loaded, serve) -> None:
    ask(loaded, serve, PROMPT[: MIN_TOKENS - 20], ram_bytes=1 << 28)
    assert files(serve) == {}


def test_other_tokens_of_the_same_text_are_not_taken(ask, loaded, serve, tokenizer) -> None:
    spelt = tokenizer.encode("the answer " * 100)
    letters = [id for letter in "the answer " * 100 for id in tokenizer.encode(letter)]
    assert len(spelt) < len(letters)
    ask(loaded, serve, spelt)
    assert files(serve)
    assert ask(loaded, serve, [*letters, *SUFFIX]).finished.reuse is Reuse.NONE


@pytest.mark.parametrize("damage", [lambda data: data[:-100], lambda data: data[:60], lambda data: b"KVC" + data[4:]])
def test_a_damaged_file_is_skipped(ask, loaded, serve, damage) -> None:
    first = ask(loaded, serve, PROMPT)
    (path,) = serve.kv_disk_dir.glob("*.kv")
    path.write_bytes(damage(path.read_bytes()))
    again = ask(loaded, serve, PROMPT)
    assert (again.finished.reuse, again.ids) == (Reuse.NONE, first.ids)


def test_a_file_whose_state_turns_out_useless_fails_no_request(ask, loaded, serve) -> None:
    first = ask(loaded, serve, PROMPT)
    (path,) = serve.kv_disk_dir.glob("*.kv")
    data = bytearray(path.read_bytes())
    with KvFile(path) as file:
        start = 52 + file.text_bytes
    data[start + 36] ^= 1  # the payload's vocabulary
    path.write_bytes(data)
    again = ask(loaded, serve, PROMPT)
    assert (again.finished.reuse, again.ids) == (Reuse.NONE, first.ids)


@pytest.mark.parametrize("kv_cache", ["packed-f16", "f16", "f32"])
def test_a_file_of_another_kv_cache_is_not_used(ask, loaded, serve, kv_cache) -> None:
    ask(loaded, serve, PROMPT)
    assert ask(opened(kv_cache), serve, PROMPT).finished.reuse is Reuse.NONE


def test_a_file_of_a_longer_context_is_not_used(ask, loaded, serve) -> None:
    ask(loaded, serve, PROMPT)
    assert ask(opened(context=1024), serve, PROMPT).finished.reuse is Reuse.NONE


def test_weights_and_arithmetic_have_marks_of_their_own(loaded) -> None:
    gguf = loaded.gguf
    mark = model_mark(gguf, "cpu False")
    assert mark == model_mark(gguf, "cpu False") != model_mark(gguf, "cpu True")
    assert 0 < mark < 1 << 16
    other = next(name for name in gguf.tensors if "norm" in name)

    class Tuned:
        tensors = gguf.tensors

        def data(self, name: str) -> np.ndarray:
            return gguf.data(name) + (name == other)

    assert model_mark(Tuned(), "cpu False") != mark  # type: ignore[arg-type]


def test_a_file_of_other_weights_is_not_used(ask, loaded, serve, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(loaded, serve, PROMPT)
    monkeypatch.setattr("whitedwarf.server.disk_settings.model_mark", lambda *_: 77)
    assert ask(loaded, serve, PROMPT).finished.reuse is Reuse.NONE


def test_nothing_is_written_without_a_folder(ask, loaded, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ask(loaded, ServeSettings(kv_cache_min_tokens=MIN_TOKENS), PROMPT, ram_bytes=1 << 28)
    assert list(tmp_path.rglob("*")) == []


def test_a_disk_that_is_behind_holds_up_no_answer(loaded, serve, tokenizer, monkeypatch, caplog) -> None:
    is_free = threading.Event()
    settings = disk_settings(serve, loaded.transformer, loaded.gguf, quality=False)
    assert settings is not None
    state = loaded.transformer.new_state()
    with caplog.at_level(logging.INFO), DiskPrefixes(loaded.transformer, tokenizer, settings) as store:
        monkeypatch.setattr(store, "_write", lambda _: is_free.wait(PATIENCE_S) and None)
        for _ in range(MAX_WAITING + 3):
            store.save(np.array(PROMPT, np.int32), state.snapshot(), SaveReason.EVICT)
        is_free.set()
    assert "prefix_not_saved" in caplog.messages
    assert store.stats.dropped in (2, 3)  # the writer may have taken one
    with pytest.raises(ValueError, match="closed"):
        store.save(np.array(PROMPT, np.int32), state.snapshot(), SaveReason.EVICT)


@pytest.fixture
def open_store(loaded, serve, tokenizer) -> Callable[..., DiskPrefixes]:
    def open(written_as: str = "packed", budget_bytes: int = 1 << 30, cold_max_tokens: int = 30_000, **more):
        settings = disk_settings(
            replace(serve, kv_disk_format=written_as, kv_cache_cold_max_tokens=cold_max_tokens),
            loaded.transformer,
            loaded.gguf,
            quality=False,
        )
        assert settings is not None
        return DiskPrefixes(loaded.transformer, tokenizer, replace(settings, budget_bytes=budget_bytes), **more)

    return open


def save_all(store: DiskPrefixes, loaded: LoadedModel, *prompts: Sequence[int]) -> None:
    """Their states, as the engine offers them at its end."""
    with store:
        for ids in prompts:
            state = loaded.transformer.new_state()
            [logits] = loaded.transformer.forward([Span(state, np.array(ids, np.int32))])
            store.save(np.array(ids, np.int32), state.snapshot(), SaveReason.SHUTDOWN, logits[-1])


def the_file(serve: ServeSettings) -> Path:
    assert serve.kv_disk_dir is not None
    (path,) = serve.kv_disk_dir.glob("*.kv")
    return path


def test_saved_texts_with_which_a_text_begins_are_told_longest_first(open_store, loaded, tokenizer) -> None:
    short, long = PROMPT[:100], PROMPT[:200]
    save_all(open_store(), loaded, short, long, [*PROMPT[:150], *SUFFIX])
    text = b"".join(map(tokenizer.token_bytes, [*PROMPT[:210], *SUFFIX]))
    with open_store() as store:
        assert [ids.tolist() for ids in store.spoken(text)] == [long, short]
        assert list(store.spoken(b"something else")) == list(store.spoken(b"")) == []


@pytest.mark.parametrize("token", [5000, 99])  # outside the vocabulary; another one
def test_tokens_that_do_not_spell_the_text_of_their_file_are_not_told(
    open_store, loaded, serve, tokenizer, token
) -> None:
    save_all(open_store(), loaded, PROMPT[:100])
    data = bytearray(the_file(serve).read_bytes())
    with KvFile(the_file(serve)) as file:
        text, at = file.text(), 52 + file.text_bytes + 48
    data[at : at + 4] = token.to_bytes(4, "little")
    the_file(serve).write_bytes(data)
    with open_store() as store:
        assert list(store.spoken(text + b" more")) == []


def test_what_calls_said_comes_back_by_their_ids(open_store, loaded, serve, tokenizer) -> None:
    words = tokenizer.token_bytes(PROMPT[40]) + tokenizer.token_bytes(PROMPT[41])
    asked = []

    def tools(text: bytes) -> dict[str, bytes]:
        asked.append((threading.current_thread().name, text))
        return {"call_a": words, "call_b": b"not in the text"}

    save_all(open_store(tools=tools), loaded, PROMPT[:100])
    assert asked == [("whitedwarf-kv-writer", b"".join(map(tokenizer.token_bytes, PROMPT[:100])))]
    with open_store() as store:
        assert store.blocks({"call_a", "call_b", "call_c"}) == {"call_a": words}
        assert store.blocks(set()) == {}
        the_file(serve).write_bytes(b"KVC damaged")
        assert store.blocks({"call_a"}) == {}


def test_a_state_is_saved_although_nobody_can_say_what_its_calls_said(open_store, loaded, serve, caplog) -> None:
    def tools(text: bytes) -> dict[str, bytes]:
        raise RuntimeError("a bug")

    save_all(open_store(tools=tools), loaded, PROMPT[:100])
    assert files(serve) == {100: Reason.SHUTDOWN}
    assert "no_tools_saved" in caplog.messages


@pytest.mark.parametrize(("written_as", "place"), [("ds4", 52 + 4 * 100), ("packed", 48 + 4 * 100 + 4 * 6)])
def test_the_logits_after_the_last_token_are_in_the_file(open_store, loaded, serve, caplog, written_as, place) -> None:
    ids = np.array(PROMPT[:100], np.int32)
    [logits] = loaded.transformer.forward([Span(loaded.transformer.new_state(), ids)])
    with caplog.at_level(logging.INFO):
        save_all(open_store(written_as), loaded, PROMPT[:100])
    with KvFile(the_file(serve)) as file:
        held = np.frombuffer(file.payload(), "<f4", len(logits[-1]), place)
    assert np.array_equal(held, logits[-1])
    assert not [record for record in caplog.records if hasattr(record, "next_logits")]


def test_the_engine_s_cold_save_carries_the_logits(ask, loaded, serve) -> None:
    ask(loaded, replace(serve, kv_disk_format="ds4"), PROMPT)
    [logits] = loaded.transformer.forward([Span(loaded.transformer.new_state(), np.array(PROMPT[:512], np.int32))])
    with KvFile(the_file(serve)) as file:
        held = np.frombuffer(file.payload(), "<f4", len(logits[-1]), 52 + 4 * 512)
    assert np.array_equal(held, logits[-1])


@pytest.mark.parametrize(("written_as", "told"), [("ds4", ["zeros"]), ("packed", [])])
def test_the_log_says_where_logits_had_to_be_made_up(open_store, loaded, caplog, written_as, told) -> None:
    state = loaded.transformer.new_state()
    loaded.transformer.forward([Span(state, np.array(PROMPT[:100], np.int32))])
    with caplog.at_level(logging.INFO), open_store(written_as) as store:
        store.save(np.array(PROMPT[:100], np.int32), state.snapshot(), SaveReason.EVICT)
    assert [record.next_logits for record in caplog.records if hasattr(record, "next_logits")] == told


def prompt(seed: int, length: int = 600) -> list[int]:
    return np.random.default_rng(seed).integers(100, 4000, length).tolist()


def test_saving_does_not_evict_what_the_next_request_begins_with(open_store, loaded, serve, caplog) -> None:
    """P14: with room for two files, A and B are saved and C is in memory when A is asked for again."""
    a, b, c = map(prompt, (11, 12, 13))
    save_all(open_store(), loaded, a, b)
    size = max(path.stat().st_size for path in serve.kv_disk_dir.glob("*.kv"))
    state = loaded.transformer.new_state()
    loaded.transformer.forward([Span(state, np.array(c, np.int32))])
    one_state = int(1.5 * state.snapshot().packed().size_bytes)
    with (
        caplog.at_level(logging.INFO),
        open_store(budget_bytes=int(2.2 * size), cold_max_tokens=0) as store,
        Engine(loaded.transformer, prefix_budget_bytes=one_state, store=store) as engine,
    ):
        engine.submit(c, OPTIONS).result(PATIENCE_S)
        assert len(list(serve.kv_disk_dir.glob("*.kv"))) == 2
        again = engine.submit([*a, *SUFFIX], OPTIONS).result(PATIENCE_S).finished
        assert (again.reuse, again.reused_tokens) == (Reuse.DISK, len(a))
    assert "stored (evict)" in caplog.text


def test_a_continuation_does_not_evict_the_file_it_came_from(open_store, loaded, serve) -> None:
    a, b = map(prompt, (11, 12))
    save_all(open_store(), loaded, a, b)
    size = max(path.stat().st_size for path in serve.kv_disk_dir.glob("*.kv"))
    with open_store(budget_bytes=int(2.3 * size)) as store:
        found = store.find(np.array([*a, *SUFFIX], np.int32))
        assert found is not None
        state = loaded.transformer.new_state()
        state.restore(found.load())
        loaded.transformer.forward([Span(state, np.array(SUFFIX, np.int32))])
        store.save(np.array([*a, *SUFFIX], np.int32), state.snapshot(), SaveReason.EVICT)
    assert sorted(files(serve)) == [len(a), len(a) + len(SUFFIX)]
    with open_store() as store:
        assert store.find(np.array([*a, 5], np.int32)) is not None
        assert store.find(np.array([*b, 5], np.int32)) is None


def test_a_file_found_is_not_evicted_before_it_is_loaded(open_store, loaded, serve) -> None:
    a, b = map(prompt, (11, 12))
    save_all(open_store(), loaded, a, b)
    size = max(path.stat().st_size for path in serve.kv_disk_dir.glob("*.kv"))
    state = loaded.transformer.new_state()
    loaded.transformer.forward([Span(state, np.array(prompt(13), np.int32))])
    store = open_store(budget_bytes=int(2.1 * size))
    found = store.find(np.array([*a, *SUFFIX], np.int32))
    store.save(np.array(prompt(13), np.int32), state.snapshot(), SaveReason.EVICT)
    store.close()
    assert store.stats.evicted == 1
    assert found is not None
    assert found.load().position == len(a)


def test_states_that_could_not_be_written_are_counted(open_store, loaded, serve, tokenizer) -> None:
    with open_store() as store:
        store.save(np.array(PROMPT[:100], np.int32), loaded.transformer.new_state().snapshot(), SaveReason.EVICT)
    assert (store.stats.failed, store.stats.files, store.stats.stored) == (1, 0, {})
    save_all(store := open_store(), loaded, PROMPT[:100])
    assert (store.stats.failed, store.stats.files, store.stats.stored) == (0, 1, {"shutdown": 1})
    assert store.stats.bytes == store.stats.written_bytes == the_file(serve).stat().st_size


def test_other_threads_may_ask_while_the_engine_looks_and_the_writer_writes(open_store, loaded, tokenizer) -> None:
    prompts = [PROMPT[i : i + 70] for i in range(0, 120, 10)]
    text = b"".join(map(tokenizer.token_bytes, PROMPT))
    store, is_over = open_store(), threading.Event()

    def ask() -> list[int]:
        found = []
        while not is_over.is_set():
            store.blocks({"call_a"})
            found += [len(ids) for ids in store.spoken(text)]
        return found

    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(ask) for _ in range(2)]
        save_all(store, loaded, *prompts)
        assert store.find(np.array(PROMPT, np.int32)) is not None
        is_over.set()
        assert {length for answer in answers for length in answer.result(PATIENCE_S)} <= {70}


def test_options_that_contradict_one_another_are_refused() -> None:
    with pytest.raises(UsageError, match="--kv-cache-cold-max-tokens must be 0 or at least"):
        disk_limits(ServeSettings(kv_cache_cold_max_tokens=100))


def test_a_folder_that_is_a_file_is_refused(loaded, tokenizer, tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="--kv-disk-dir"):
        disk_prefixes(loaded, tokenizer, ServeSettings(kv_disk_dir=tmp_path / "file"), Past(tokenizer))
