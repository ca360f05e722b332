"""What members say of themselves, who may be together, and who gets which layers."""

from dataclasses import replace
from pathlib import Path

import pytest

from whitedwarf.cluster.facts import KEY, MemberFacts, Present, facts_in, layers_text, refusal
from whitedwarf.cluster.fingerprint import fingerprint_of
from whitedwarf.cluster.split import LayerSizes, SplitMember
from whitedwarf.cluster.split_plan import SplitPlan
from whitedwarf.cluster.wish import StageWish
from whitedwarf.errors import ClusterError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.synth import synthesise
from whitedwarf.weights.store import bundled_model

FACTS = MemberFacts("b", "host", 7, "nano", "f1", 6, range(6), None, range(3, 6), 1 << 30, 1e9)
WISH = StageWish("r", range(3, 6), "f1", 6, "packed", quality=False)
SIZES = LayerSizes((1 << 20,) * 6)


def test_facts_cross_the_wire_and_those_of_other_versions_are_only_a_version() -> None:
    for facts in (FACTS, replace(FACTS, asked=range(2, 4), loaded=None)):
        assert facts_in({KEY: facts.to_wire()}) == (facts.version, facts)
    old = FACTS.to_wire() | {"version": "0.0.1", "colour": "blue"}
    assert facts_in({KEY: old}) == ("0.0.1", None)
    assert facts_in({}) == ("unknown", None)


def test_members_of_another_version_or_model_are_refused() -> None:
    assert refusal(FACTS.version, FACTS, [FACTS]) == ""
    assert "install the same on both" in refusal("0.0.1", None, [])
    assert "whitedwarf cluster join" in refusal(FACTS.version, None, [])
    assert "files of the same model" in refusal(FACTS.version, replace(FACTS, fingerprint="f2"), [FACTS])


@pytest.mark.parametrize(
    ("wish", "facts", "why"),
    [
        (WISH, FACTS, ""),
        (replace(WISH, version="9"), FACTS, "install the same"),
        (replace(WISH, fingerprint="f2"), FACTS, "same model"),
        (WISH, replace(FACTS, present=range(4, 6)), "file has layers 4:output, wanted are 3:output"),
        (WISH, replace(FACTS, asked=range(2, 6)), "started with --layers 2:output"),
    ],
)
def test_a_member_does_only_what_it_can(wish: StageWish, facts: MemberFacts, why: str) -> None:
    assert why in wish.refusal(facts)
    assert bool(why) == bool(wish.refusal(facts))


def test_layers_are_written_as_they_are_asked_for() -> None:
    assert [layers_text(one, 6) for one in (range(1, 3), range(3, 6), range(0), None)] == [
        "1:2",
        "3:output",
        "none",
        "none",
    ]


def test_a_fingerprint_is_the_models_and_not_the_files(tmp_path: Path) -> None:
    found = []
    for name, quant, seed in (("a", "q8", 0), ("b", "f16", 1)):
        synthesise(tmp_path / name, "tiny", quant=quant, seed=seed)
        with open_gguf(tmp_path / name) as gguf:
            found.append(fingerprint_of(gguf))
    with open_gguf(bundled_model()) as gguf:
        assert fingerprint_of(gguf) not in found
    assert found[0] == found[1]


def test_the_plan_gives_members_what_the_coordinator_has_not() -> None:
    own = SplitMember("this process", 1 << 40, 1e9, range(6), range(2))
    free = Present("tls://b:1", replace(FACTS, loaded=None))
    fixed = Present("tls://c:1", replace(FACTS, name="c", asked=range(4, 6)))
    assert SplitPlan(SIZES, own)([free, fixed]) == [(free, range(2, 4)), (fixed, range(4, 6))]
    with pytest.raises(ClusterError, match="layers 2 to 3"):
        SplitPlan(SIZES, own)([fixed])
    unsettled = SplitPlan(SIZES, replace(own, wanted=None))
    layers = unsettled.own_layers([free])
    assert layers == range(3)
    assert unsettled.with_own(layers)([free]) == [(free, range(3, 6))]
    with pytest.raises(ClusterError, match="nobody has joined"):
        unsettled.own_layers([])
    slow = Present("tls://d:1", replace(FACTS, loaded=None, read_bytes_per_s=1.0))
    with pytest.raises(ClusterError, match="alone is fastest"):
        unsettled.own_layers([slow])
