"""Where a model goes on made-up machines, and why it does not go where it cannot."""

from functools import cache
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from fakes.header_sizes import header_sizes
from whitedwarf.cli.memory import context_bytes_by_layer, row_scratch_bytes
from whitedwarf.errors import OutOfMemoryError
from whitedwarf.gguf.recipes import RecipeName
from whitedwarf.gguf.synth_shapes import ModelShape, model_shape
from whitedwarf.model.config import ModelConfig
from whitedwarf.weights.model_bytes import LayerBytes, ModelBytes, model_bytes
from whitedwarf.weights.placement import Card, Mode, Placement, Wants, place
from whitedwarf.weights.placement_text import placement_line, placement_lines

GB = 1_000_000_000
GIB = 1 << 30
MILLION = 1 << 20


@cache
def wants(shape: ModelShape, recipe: RecipeName, context: int = 32_768, parallel: int = 1, chunk: int = 1024) -> Wants:
    hp = model_shape(shape)
    model = model_bytes(hp, header_sizes(hp, recipe))
    layers = context_bytes_by_layer(ModelConfig(hp, max_context=context))
    windows = sum(context_bytes_by_layer(ModelConfig(hp, max_context=1)))
    return Wants(model, layers, context, chunk * row_scratch_bytes(hp), hp.num_experts_used, parallel, windows)


def card(size_gib: float, number: int = 0, *, shared: bool = False, budget: float | None = None) -> Card:
    """With what its driver usually takes already gone."""
    total = int(size_gib * GIB)
    return Card(
        f"cuda:{number}", f"made-up {size_gib:g}", total, total - 400_000_000, shared, budget and int(budget * GIB)
    )


def cards(count: int, size_gib: float) -> list[Card]:
    return [card(size_gib, number) for number in range(count)]


def assert_sound(placement: Placement, asked: Wants) -> None:
    """Every layer is somewhere once, in order, and no card has more than it may."""
    shares = placement.shares
    assert shares[0].first_layer == 0
    assert shares[-1].end_layer == len(asked.model.layers)
    assert all(left.end_layer == right.first_layer for left, right in pairwise(shares))
    assert all(share.first_layer < share.end_layer for share in shares)
    assert all(share.used_bytes <= share.usable_bytes for share in shares)
    dense = sum(share.dense_bytes for share in shares)
    assert dense == asked.model.dense_bytes
    assert sum(share.context_bytes for share in shares) == sum(asked.context_bytes)
    if placement.mode is not Mode.HOST_EXPERTS:
        assert sum(share.experts_bytes for share in shares) == asked.model.experts_bytes
    for share in shares:
        for slots in share.slots:
            assert slots.count >= asked.num_experts_used


@pytest.mark.parametrize(
    ("asked", "machine", "host_gb", "mode"),
    [
        (wants("flash", "q2"), cards(1, 141), 256, Mode.WHOLE),
        (wants("flash", "q2", MILLION), cards(1, 141), 256, Mode.WHOLE),
        (wants("flash", "q2"), cards(1, 96), 256, Mode.WHOLE),
        (wants("flash", "q2"), cards(1, 80), 256, Mode.HOST_EXPERTS),
        (wants("flash", "q2"), cards(4, 24), 128, Mode.LAYERS),
        (wants("flash", "q2"), cards(2, 24), 128, Mode.HOST_EXPERTS),
        (wants("flash", "q2"), cards(1, 32), 128, Mode.HOST_EXPERTS),
        (wants("flash", "q2"), cards(1, 24), 128, Mode.HOST_EXPERTS),
        (wants("flash", "q2"), cards(1, 16), 128, Mode.HOST_EXPERTS),
        (wants("flash", "q2"), cards(1, 12), 128, Mode.HOST_EXPERTS),
        (wants("flash", "mxfp4"), cards(2, 80), 512, Mode.LAYERS),
        (wants("flash", "mxfp4"), cards(1, 141), 512, Mode.HOST_EXPERTS),
        (wants("flash", "mxfp4", MILLION), cards(8, 80), 1024, Mode.LAYERS),
        (wants("pro", "q2"), cards(8, 80), 1024, Mode.LAYERS),
        (wants("pro", "mxfp4"), cards(8, 141), 2048, Mode.LAYERS),
        (wants("pro", "mxfp4"), cards(8, 80), 2048, Mode.HOST_EXPERTS),
        (wants("flash", "q2"), [card(128, shared=True)], 122, Mode.WHOLE),
    ],
)
def test_machines_get_the_plan_that_suits_them(asked: Wants, machine: list[Card], host_gb: int, mode: Mode) -> None:
    placement = place(asked, machine, host_gb * GB)
    assert placement.mode is mode
    assert_sound(placement, asked)
    assert placement.warnings == ()


def test_the_card_with_the_most_room_has_it_all() -> None:
    placement = place(wants("flash", "q2"), [card(24, 0), card(141, 1), card(96, 2)], 256 * GB)
    assert [share.device for share in placement.shares] == ["cuda:1"]


def test_no_more_cards_than_are_needed() -> None:
    assert len(place(wants("flash", "q2"), cards(8, 80), 512 * GB).shares) == 2
    assert len(place(wants("flash", "q2"), cards(8, 24), 512 * GB).shares) == 4


def test_layers_are_balanced_over_cards_of_one_size() -> None:
    shares = place(wants("flash", "q2", MILLION), cards(4, 32), 128 * GB).shares
    fullness = [share.used_bytes / share.usable_bytes for share in shares]
    assert max(fullness) - min(fullness) < 0.1


def test_a_larger_card_has_more_layers() -> None:
    shares = place(wants("flash", "q2"), [card(80, 0), card(24, 1)], 128 * GB).shares
    assert shares[0].end_layer - shares[0].first_layer > 2.5 * (shares[1].end_layer - shares[1].first_layer)


def test_layers_know_their_card() -> None:
    placement = place(wants("flash", "q2"), cards(2, 80), 128 * GB)
    cut = placement.shares[0].end_layer
    assert placement.device(0) == placement.device(cut - 1) == "cuda:0"
    assert placement.device(cut) == placement.device(42) == placement.device(43) == "cuda:1"


@pytest.mark.parametrize(
    ("size_gib", "at_least", "at_most"), [(12, 20, 400), (16, 600, 1300), (24, 1800, 2600), (32, 3000, 3900)]
)
def test_small_cards_hold_some_experts_of_flash(size_gib: int, at_least: int, at_most: int) -> None:
    (share,) = place(wants("flash", "q2"), cards(1, size_gib), 128 * GB).shares
    assert at_least < share.num_slots < at_most


def test_sizes_of_experts_have_slots_by_their_share() -> None:
    hp = model_shape("flash")
    sizes = model_bytes(hp, header_sizes(hp, "q2-q4", rich_layers=frozenset(range(37, 43))))
    asked = wants("flash", "q2")
    (share,) = place(Wants(sizes, asked.context_bytes, 32_768, asked.scratch_bytes, 6), cards(1, 24), 256 * GB).shares
    small, large = share.slots
    assert small.expert_bytes < large.expert_bytes
    assert large.count / (6 * 256) == pytest.approx(small.count / (37 * 256), rel=0.1)


def test_too_little_host_memory_is_told_not_refused() -> None:
    placement = place(wants("flash", "q2"), cards(1, 24), 32 * GB)
    assert placement.mode is Mode.HOST_EXPERTS
    assert any("read from disk again and again" in warning for warning in placement.warnings)


def test_many_full_contexts_are_told_not_refused() -> None:
    (warning,) = place(wants("flash", "q2", MILLION, parallel=16), cards(1, 96), 256 * GB).warnings
    assert "16 requests whose contexts of 1048576 tokens are all full" in warning
    assert place(wants("flash", "q2", 32_768, parallel=16), cards(1, 96), 256 * GB).warnings == ()


def test_a_card_too_small_for_the_rest_is_refused_with_numbers() -> None:
    with pytest.raises(OutOfMemoryError) as caught:
        place(wants("flash", "q2"), cards(1, 8), 128 * GB)
    assert str(caught.value) == (
        "even with all experts in host memory the model needs 9.23 GiB: 8.20 GiB of weights that every token uses, "
        "206.32 MiB for a context of 32768 tokens, 784.00 MiB of buffers and 67.50 MiB for a few experts; "
        "cuda:0 (made-up 8) has 7.13 GiB to give, 2.10 GiB too little: use a smaller quantisation, or --cpu, which "
        "reads weights where they lie in the file"
    )


def test_a_shorter_context_is_advised_where_it_helps() -> None:
    asked = wants("flash", "q2", MILLION)
    with pytest.raises(OutOfMemoryError, match=r"use --ctx (\d+) or less") as caught:
        place(asked, cards(1, 12), 128 * GB)
    length = int(str(caught.value).split("--ctx ")[1].split()[0])
    assert length % 256 == 0
    assert place(wants("flash", "q2", length), cards(1, 12), 128 * GB).mode is Mode.HOST_EXPERTS


def test_shared_memory_counts_once() -> None:
    with pytest.raises(OutOfMemoryError, match="in memory that the card shares with the host"):
        place(wants("flash", "mxfp4"), [card(128, shared=True)], 122 * GB)
    with pytest.raises(OutOfMemoryError, match="too little"):  # other programs have half of it
        place(wants("flash", "q2"), [card(128, shared=True)], 60 * GB)


def test_a_budget_is_kept() -> None:
    placement = place(wants("flash", "q2"), [card(141, budget=20)], 128 * GB)
    assert placement.mode is Mode.HOST_EXPERTS
    assert placement.shares[0].usable_bytes == 20 * GIB
    assert placement.shares[0].used_bytes <= 20 * GIB


def test_a_budget_beyond_what_is_free_is_what_is_free() -> None:
    assert card(24, budget=40).usable_bytes(0) == card(24).free_bytes


def test_no_card_is_no_question() -> None:
    with pytest.raises(ValueError, match="got none"):
        place(wants("flash", "q2"), [], 0)


@given(
    layers=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=12),
    sizes=st.lists(st.integers(1, 900), min_size=1, max_size=4),
    ends=st.tuples(st.integers(0, 30), st.integers(0, 30)),
    scratch=st.integers(0, 20),
)
@settings(max_examples=200, deadline=None)
def test_whatever_is_placed_fits_and_what_would_fit_is_not_refused(
    layers: list[tuple[int, int, int]], sizes: list[int], ends: tuple[int, int], scratch: int
) -> None:
    model = ModelBytes(tuple(LayerBytes(dense, expert, 8) for dense, expert, _ in layers), *ends)
    asked = Wants(model, tuple(context for *_, context in layers), 1000, scratch, 2)
    machine = [Card(f"cuda:{n}", "made-up", size, size, budget_bytes=size) for n, size in enumerate(sizes)]
    everything = model.dense_bytes + model.experts_bytes + sum(asked.context_bytes) + scratch
    try:
        placement = place(asked, machine, 1 << 40)
    except OutOfMemoryError:
        assert everything > max(sizes)
        return
    assert_sound(placement, asked)
    assert (placement.mode is Mode.WHOLE) == (everything <= max(sizes))


@pytest.mark.parametrize(
    ("asked", "machine", "line"),
    [
        (
            wants("flash", "q2"),
            cards(1, 141),
            "whole model on cuda:0 (made-up 141): 8.20 GiB of weights, 72.56 GiB of experts, 206.32 MiB of context and "
            "784.00 MiB of buffers, 81.73 GiB of 136.22 GiB",
        ),
        (
            wants("flash", "q2"),
            cards(2, 48),
            "layers over 2 cards: cuda:0 0-20 (40.54 GiB of 46.13 GiB), cuda:1 21-42 (41.95 GiB of 46.13 GiB)",
        ),
        (
            wants("flash", "q2"),
            cards(1, 24),
            "72.56 GiB of experts in host memory; all else on cuda:0 (22.87 GiB of 22.88 GiB) with slots for "
            "2076 of 11008 experts (13.68 GiB)",
        ),
    ],
)
def test_a_plan_is_one_line(asked: Wants, machine: list[Card], line: str) -> None:
    assert placement_line(place(asked, machine, 128 * GB)) == line


def test_doctor_says_more_of_several_cards() -> None:
    lines = list(placement_lines(place(wants("flash", "q2", MILLION, parallel=9), cards(2, 48), 128 * GB)))
    assert len(lines) == 4
    assert lines[1].startswith("cuda:0 (made-up 48): layers 0-")
    assert "9 requests" in lines[3]
