"""Ports are a pure function of the config, and no two things get the same one (spec/supervisor.md 7, scenario 8)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.ports import LAST_PORT, PortPair, PortRequest, assign_ports

PORTS = st.just(0) | st.integers(8080, 8100)


def entries(*pairs: tuple[int, int]) -> list[PortRequest]:
    return [PortRequest(f"m{i}", f"models[{i}]", public, internal) for i, (public, internal) in enumerate(pairs)]


def external(index: int, public: int = 0) -> PortRequest:
    return PortRequest(f"m{index}", f"models[{index}]", public, is_managed=False)


def test_ports_count_up_from_their_bases_and_external_models_count() -> None:
    asked = [*entries((0, 0)), external(1), PortRequest("m2", "models[2]")]
    assert assign_ports(asked, 8080, 9080) == [PortPair(8080, 9080), PortPair(8081, 0), PortPair(8082, 9081)]


def test_automatic_internal_ports_step_over_everything_that_has_an_owner() -> None:
    assert assign_ports(entries((0, 0), (0, 0), (9080, 9082)), 8080, 9080) == [
        PortPair(8080, 9081),
        PortPair(8081, 9083),
        PortPair(9080, 9082),
    ]


def test_adjacent_bases_never_give_one_port_to_two() -> None:
    pairs = assign_ports(entries(*[(0, 0)] * 60), 8080, 8081)
    everything = [port for pair in pairs for port in (pair.public, pair.internal)]
    assert len(set(everything)) == 120
    assert [pair.public for pair in pairs] == list(range(8080, 8140))
    assert [pair.internal for pair in pairs] == list(range(8140, 8200))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (entries((8090, 0), (8090, 0)), ("8090", "models[0].publicPort", "models[1].publicPort")),
        (entries((0, 9100), (0, 9100)), ("9100", "models[0].internalPort", "models[1].internalPort")),
        (entries((8090, 8090)), ("8090", "models[0].publicPort", "models[0].internalPort")),
        (entries((0, 0), (9100, 0), (0, 9100)), ("9100", "models[1].publicPort", "models[2].internalPort")),
        (entries((8081, 0), (0, 0)), ("8081", "models[0].publicPort", "automatic public port of 'm1'")),
        (entries((0, 8081), (0, 0)), ("8081", "models[0].internalPort", "automatic public port of 'm1'")),
        ([external(0, 8090), external(1, 8090)], ("8090", "models[0].publicPort", "models[1].publicPort")),
    ],
)
def test_one_port_for_two_is_an_error_that_names_both(asked: list[PortRequest], says: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as told:
        assign_ports(asked, 8080, 9080)
    assert all(part in str(told.value) for part in says)


def test_ports_end_at_their_last_number() -> None:
    assert assign_ports(entries((0, 0), (0, 0)), LAST_PORT - 1, 9080)[1].public == LAST_PORT
    with pytest.raises(UsageError, match="automatic public port of 'm2' would be 65536"):
        assign_ports(entries((0, 0), (0, 0), (0, 0)), LAST_PORT - 1, 9080)
    with pytest.raises(UsageError, match="automatic internal port of 'm1' would be 65536"):
        assign_ports(entries((0, 0), (0, 0)), 8080, LAST_PORT)


@given(st.lists(st.tuples(PORTS, PORTS, st.booleans()), max_size=8), st.integers(8080, 8100), st.integers(8080, 8100))
def test_whatever_is_asked_no_port_has_two_owners(
    asked: list[tuple[int, int, bool]], public_base: int, internal_base: int
) -> None:
    requests = [
        PortRequest(f"m{i}", f"models[{i}]", public, internal if managed else 0, managed)
        for i, (public, internal, managed) in enumerate(asked)
    ]
    try:
        pairs = assign_ports(requests, public_base, internal_base)
    except UsageError as error:
        assert "another port" in str(error)  # noqa: PT017
        return
    owned = [port for pair in pairs for port in (pair.public, pair.internal) if port]
    assert len(set(owned)) == len(owned) == sum(2 if managed else 1 for *_, managed in asked)
    for request, pair in zip(requests, pairs, strict=True):
        assert request.public in (0, pair.public)
        assert request.internal in (0, pair.internal)
