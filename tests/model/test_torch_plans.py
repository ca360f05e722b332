"""Models that do not lie on one card as a whole: layers over several, experts elsewhere, and the same logits."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'whitedwarf[cuda]'")

from fakes.rewritten import random_tensors, rewritten  # noqa: E402
from fakes.torch_card import CountedCard, TaggedCard, TaggedCards  # noqa: E402
from oracle.fixtures import oracle_file  # noqa: E402
from whitedwarf.errors import OutOfMemoryError  # noqa: E402
from whitedwarf.gguf.census import mtp_tensors  # noqa: E402
from whitedwarf.gguf.reader import GgufFile, open_gguf  # noqa: E402
from whitedwarf.gguf.synth import synthesise  # noqa: E402
from whitedwarf.gguf.synth_shapes import model_shape  # noqa: E402
from whitedwarf.model.base import Span  # noqa: E402
from whitedwarf.model.loading import LoadedModel, load_model  # noqa: E402
from whitedwarf.model.steering import Steering  # noqa: E402
from whitedwarf.model.transformer import Passed, Transformer  # noqa: E402
from whitedwarf.ops.base import Ops  # noqa: E402
from whitedwarf.ops.cpu import CpuOps  # noqa: E402
from whitedwarf.ops.host_expert_ops import HostExpertOps  # noqa: E402
from whitedwarf.ops.layered_ops import LayeredOps  # noqa: E402
from whitedwarf.ops.torch_experts import HostExperts  # noqa: E402
from whitedwarf.ops.torch_ops import TorchOps  # noqa: E402
from whitedwarf.ops.twins import products  # noqa: E402
from whitedwarf.weights.checked import check_model  # noqa: E402
from whitedwarf.weights.model_bytes import model_bytes  # noqa: E402
from whitedwarf.weights.placement import STAGED_EXPERTS, Slots  # noqa: E402
from whitedwarf.weights.store import find_model  # noqa: E402

CHUNKS = ((0, 17), (17, 18), (18, 21), (21, 22), (22, 23))
FEW = ((0, 9), (9, 10))


@pytest.fixture(scope="module")
def tiny() -> Iterator[GgufFile]:
    with open_gguf(oracle_file("tinyA/tiny-mxfp4.gguf")) as gguf:
        yield gguf


def tokens(count: int, vocabulary: int = 512, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, vocabulary, count).astype(np.int32)


def run(model: Transformer, chunks: Sequence[tuple[int, int]] = CHUNKS) -> np.ndarray:
    """Logits of every token of a sequence in chunks and single tokens, with another sequence beside it."""
    ids, state, other, logits = tokens(23), model.new_state(), model.new_state(), []
    for start, end in chunks:
        spans = [Span(state, ids[start:end], "all"), Span(other, tokens(2, seed=start), "none")]
        logits.append(model.forward(spans)[0])
    return np.concatenate(logits)


def plain(gguf: GgufFile) -> Transformer:
    return load_model(gguf, TorchOps()).transformer


@pytest.fixture(scope="module")
def expected(tiny: GgufFile) -> np.ndarray:
    return run(plain(tiny))


@pytest.fixture(scope="module")
def expected_few(tiny: GgufFile) -> np.ndarray:
    return run(plain(tiny), FEW)


def slots_for(gguf: GgufFile, count: int) -> list[Slots]:
    sizes = model_bytes(check_model(gguf).hp, gguf.tensors)
    return [Slots(size, count) for size in sorted({layer.expert_bytes for layer in sizes.layers})]


def host_experts(gguf: GgufFile, count: int, device: str = "cpu", cpu: CpuOps | None = None) -> HostExperts:
    return HostExperts(device, slots_for(gguf, count), products.experts, cpu, "cpu" if cpu else "copy")


def layered(tags: TaggedCards, *cards: tuple[Ops, int]) -> Ops:
    return LayeredOps.over([TaggedCard(tags, number, ops, end) for number, (ops, end) in enumerate(cards)])


@pytest.mark.parametrize("slots", [3, 8, 36])
def test_experts_elsewhere_give_the_logits_of_the_whole_model(tiny: GgufFile, expected: np.ndarray, slots: int) -> None:
    host = host_experts(tiny, slots)
    model = load_model(tiny, HostExpertOps.around(TorchOps(), host)).transformer
    assert (run(model) == expected).all()
    assert host.traffic.hits + host.traffic.misses > 0
    assert host.cache.num_held <= slots


def test_so_do_other_quants() -> None:
    with open_gguf(oracle_file("tinyQ/tiny-iq2.gguf")) as gguf:
        model = load_model(gguf, HostExpertOps.around(TorchOps(), host_experts(gguf, 3))).transformer
        assert (run(model) == run(plain(gguf))).all()


def test_and_nano() -> None:
    with open_gguf(find_model(None).path) as gguf:
        model = load_model(gguf, HostExpertOps.around(TorchOps(), host_experts(gguf, 9))).transformer
        assert (run(model) == run(plain(gguf))).all()


def test_what_was_hot_before_does_not_show_in_the_logits(tiny: GgufFile, expected: np.ndarray) -> None:
    model = load_model(tiny, HostExpertOps.around(TorchOps(), host_experts(tiny, 10))).transformer
    model.forward([Span(model.new_state(), tokens(30, seed=7), "none")])
    assert (run(model) == expected).all()


def test_more_slots_hit_more(tiny: GgufFile) -> None:
    rates = []
    for slots in (4, 12, 36):
        host = host_experts(tiny, slots)
        model = load_model(tiny, HostExpertOps.around(TorchOps(), host)).transformer
        state = model.new_state()
        for token in tokens(16, seed=3):
            model.forward([Span(state, np.array([token]), "none")])
        rates.append(host.traffic.hit_rate)
    assert rates == sorted(rates)
    assert rates[-1] > 0.5  # all 36 experts have a place
    assert host.traffic.loads <= 36


def test_where_the_cpu_computes_the_tokens_are_the_same(tiny: GgufFile, expected: np.ndarray) -> None:
    host = host_experts(tiny, 6, cpu=CpuOps(1, quality=True))
    actual = run(load_model(tiny, HostExpertOps.around(TorchOps(), host)).transformer)
    assert host.host_rows > 0
    assert np.linalg.norm(actual - expected) <= 1e-4 * np.linalg.norm(expected)
    assert (actual.argmax(axis=1) == expected.argmax(axis=1)).all()


def test_a_small_card_is_never_asked_for_more_than_it_has(tiny: GgufFile, expected: np.ndarray) -> None:
    """It is smaller than what the whole model needs by nearly all experts that are not to lie on it."""
    sizes, slots = model_bytes(check_model(tiny).hp, tiny.tensors), 4
    with CountedCard(1 << 40) as large:
        run(plain(tiny))
    budget = large.peak_bytes - (sizes.experts_bytes - (slots + STAGED_EXPERTS) * sizes.layers[0].expert_bytes)
    with CountedCard(budget), pytest.raises(OutOfMemoryError):
        run(plain(tiny))
    with CountedCard(budget) as card:
        model = load_model(tiny, HostExpertOps.around(TorchOps(), host_experts(tiny, slots))).transformer
        assert (run(model) == expected).all()
        assert card.peak_bytes <= budget


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_layers_over_two_cards_give_the_logits_of_one(tiny: GgufFile, expected_few: np.ndarray, cut: int) -> None:
    with TaggedCards() as tags:
        model = load_model(tiny, layered(tags, (TorchOps("cpu:0"), cut), (TorchOps("cpu:1"), 6))).transformer
        assert (run(model, FEW) == expected_few).all()


def test_a_pass_moves_its_streams_once_a_card(tiny: GgufFile) -> None:
    with TaggedCards() as tags:
        cards = (TorchOps("cpu:0"), 2), (TorchOps("cpu:1"), 4), (TorchOps("cpu:2"), 6)
        model = load_model(tiny, layered(tags, *cards)).transformer
        state = model.new_state()
        for number, ids in enumerate((tokens(20), tokens(1), tokens(1))):
            model.forward([Span(state, ids, "last")])
            streams = (len(ids), 4, 128)
            assert tags.moves == [(1, streams), (2, streams)]
            tags.moves.clear()
            assert number < 3


def test_the_rows_of_a_layer_lie_on_its_card(tiny: GgufFile) -> None:
    with TaggedCards() as tags:
        model = load_model(tiny, layered(tags, (TorchOps("cpu:0"), 2), (TorchOps("cpu:1"), 6))).transformer
        state = model.new_state()
        model.forward([Span(state, tokens(20), "none")])
        snapshot = state.snapshot()
        for held in (state.layers, snapshot.layers):
            assert [tags.card_of(layer.window.buffer) for layer in held] == [0, 0, 1, 1, 1, 1]
        resumed = model.new_state()
        resumed.restore(snapshot)
        (one,), (other,) = (model.forward([Span(each, tokens(1), "last")]) for each in (state, resumed))
        assert (one == other).all()


def test_every_card_may_have_slots_of_its_own(tiny: GgufFile, expected_few: np.ndarray) -> None:
    with TaggedCards() as tags:
        hosts = [host_experts(tiny, 5, f"cpu:{number}") for number in range(2)]
        cards = [HostExpertOps.around(TorchOps(f"cpu:{number}"), host) for number, host in enumerate(hosts)]
        model = load_model(tiny, layered(tags, (cards[0], 3), (cards[1], 6))).transformer
        assert (run(model, FEW) == expected_few).all()
    assert all(host.traffic.loads > 0 for host in hosts)
    assert hosts[0].cache.picks.shape == (3, 6)


def plans(gguf: GgufFile, tags: TaggedCards) -> Iterator[LoadedModel]:
    """As one card has it, with experts elsewhere, and over two cards."""
    yield load_model(gguf, TorchOps())
    yield load_model(gguf, HostExpertOps.around(TorchOps(), host_experts(gguf, 4)))
    yield load_model(gguf, layered(tags, (TorchOps("cpu:0"), 3), (TorchOps("cpu:1"), 6)))


def test_a_steered_model_is_steered_everywhere(tiny: GgufFile, expected_few: np.ndarray) -> None:
    values = np.random.default_rng(5).standard_normal((6, 128)).astype(np.float32)
    steering = Steering(values / np.linalg.norm(values, axis=1, keepdims=True), 1.0, 0.5)
    with TaggedCards() as tags:
        one, other, third = (run(loaded.transformer.steered(steering), FEW) for loaded in plans(tiny, tags))
    assert (one == other).all()
    assert (one == third).all()
    assert (one != expected_few).any()


def test_an_mtp_block_is_with_the_last_layers(tmp_path: Path) -> None:
    synthesise(tmp_path / "tiny.gguf", "tiny", seed=1)
    block = random_tensors(mtp_tensors(model_shape("tiny")))
    streams = torch.from_numpy(np.random.default_rng(1).standard_normal((5, 4, 256), np.float32))
    logits = []
    with (
        open_gguf(rewritten(tmp_path / "tiny.gguf", tmp_path / "mtp.gguf", added=block)) as gguf,
        TaggedCards() as tags,
    ):
        for loaded in plans(gguf, tags):
            assert loaded.mtp is not None
            logits.append(loaded.mtp.forward([Span(loaded.mtp.new_state(), tokens(5))], streams).logits)
    assert np.isfinite(logits[0]).all()
    assert (logits[0] == logits[1]).all()
    assert (logits[0] == logits[2]).all()


def test_the_made_up_cards_notice_what_is_mixed() -> None:
    with TaggedCards() as tags:
        one, other = torch.ones(2, device="cpu:0"), torch.ones(2, device="cpu:1")
        assert (tags.card_of(one * 2), tags.card_of(other[:1])) == (0, 1)
        with pytest.raises(AssertionError, match="mixes tensors of the cards"):
            one + other
        assert tags.card_of(tags.move(one, 1) + other) == 1


def parts_of_a_pass(models: Sequence[Transformer], ids: np.ndarray) -> np.ndarray:
    """Logits of a chunk and a token, from part to part."""
    states, found = [model.new_state() for model in models], []
    for piece in (ids[:-1], ids[-1:]):
        passed = Passed()
        for model, state in zip(models, states, strict=True):
            passed = model.forward_part([Span(state, piece, "all")], passed.streams)
        found.append(passed.logits[0])
    return np.concatenate(found)


def test_a_part_of_a_model_may_lie_on_several_cards(tiny: GgufFile) -> None:
    ids, model = tokens(10), plain(tiny)
    expected = model.forward([Span(model.new_state(), ids, "all")])[0]
    with TaggedCards() as tags:
        first = load_model(
            tiny, layered(tags, (TorchOps("cpu:0"), 1), (TorchOps("cpu:1"), 2)), held=range(2)
        ).transformer
        last_ops = layered(tags, (TorchOps("cpu:0"), 3), (TorchOps("cpu:1"), 6))
        last = load_model(tiny, last_ops, held=range(2, 6)).transformer
        assert (parts_of_a_pass([first, last], ids) == expected).all()


def test_a_part_of_a_model_may_have_its_experts_elsewhere(tiny: GgufFile) -> None:
    ids, model = tokens(10), plain(tiny)
    expected = model.forward([Span(model.new_state(), ids, "all")])[0]
    parts = [
        load_model(tiny, HostExpertOps.around(TorchOps(), host_experts(tiny, 6)), held=held).transformer
        for held in (range(3), range(3, 6))
    ]
    assert (parts_of_a_pass(parts, ids) == expected).all()
