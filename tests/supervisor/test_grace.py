"""Grace by conversation: who may go over the limit, how long, and who ends it."""

from hypothesis import given
from hypothesis import strategies as st

from fakes.launches import FakeClock
from whitedwarf.supervisor.grace import Conversation, GraceBook


def talk(anchor: str, first: str) -> Conversation:
    return Conversation(anchor.encode(), f"{anchor}/{first}".encode())


CHAT = talk("system+tools", "please refactor")
SHORTENED = talk("system+tools", "summary of what was said")
TITLE = talk("make a title", "please refactor")
OTHER = talk("system+tools", "something else")


def book(grace_s: float = 180, most: int = 48) -> tuple[GraceBook, FakeClock]:
    clock = FakeClock()
    return GraceBook(grace_s, clock, most), clock


def test_the_summary_passes_the_retry_closes_and_the_next_overflow_is_refused() -> None:
    found, _ = book()
    assert not found.admits(CHAT)
    assert found.admits(CHAT)  # the summary: the same beginning, larger
    found.passed(SHORTENED)
    assert len(found) == 0
    assert not found.admits(SHORTENED)


def test_a_title_or_a_subagent_in_between_closes_nothing() -> None:
    found, _ = book()
    assert not found.admits(CHAT)
    found.passed(TITLE)
    found.passed(OTHER)
    assert found.admits(CHAT)
    found.passed(TITLE)
    assert found.admits(CHAT)


def test_a_request_of_another_conversation_that_goes_on_closes_nothing() -> None:
    found, _ = book()
    found.passed(OTHER)
    assert not found.admits(CHAT)
    assert found.admits(CHAT)
    found.passed(OTHER)
    assert found.admits(CHAT)


def test_two_conversations_have_two_windows() -> None:
    found, _ = book()
    assert not found.admits(CHAT)
    assert not found.admits(OTHER)
    assert found.admits(OTHER)
    assert found.admits(CHAT)
    found.passed(CHAT)
    assert not found.admits(CHAT)
    assert found.admits(OTHER)


def test_a_window_ends_by_itself() -> None:
    found, clock = book(grace_s=180)
    assert not found.admits(CHAT)
    clock.pass_(179.5)
    assert found.admits(CHAT)
    clock.pass_(0.5)
    assert not found.admits(CHAT)


def test_no_grace_opens_no_window() -> None:
    found, _ = book(grace_s=0)
    assert not found.admits(CHAT)
    assert not found.admits(CHAT)


def test_the_oldest_window_makes_room() -> None:
    found, _ = book(most=2)
    for first in "abc":
        assert not found.admits(talk("s", first))
    assert len(found) == 2
    assert found.admits(talk("s", "b"))
    assert not found.admits(talk("s", "a"))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["over", "under", "time"]), st.sampled_from("xy"), st.sampled_from("abc"), st.integers(1, 100)
    ),
    max_size=60,
)


@given(EVENTS)
def test_whoever_passes_over_the_limit_was_refused_within_the_time_and_has_not_closed_since(
    events: list[tuple[str, str, str, int]],
) -> None:
    found, clock = book(grace_s=100, most=4)
    refused_s: dict[Conversation, float] = {}
    for kind, anchor, first, seconds in events:
        one = talk(anchor, first)
        if kind == "time":
            clock.pass_(seconds)
        elif kind == "under":
            found.passed(one)
            refused_s.pop(one, None)
        elif found.admits(one):
            assert clock() - refused_s[one] < 100
        else:
            refused_s[one] = clock()
        assert len(found) <= 4


@given(EVENTS)
def test_a_conversation_is_never_closed_by_one_of_another_system_message(
    events: list[tuple[str, str, str, int]],
) -> None:
    found, clock = book(grace_s=100)
    mine = talk("mine", "first")
    assert not found.admits(mine)
    left_s = 100.0
    for kind, anchor, first, seconds in events:
        if kind == "time" and left_s > seconds:
            clock.pass_(seconds)
            left_s -= seconds
        elif kind == "under":
            found.passed(talk(anchor, first))
        elif kind == "over":
            found.admits(talk(anchor, first))
    assert found.admits(mine)
