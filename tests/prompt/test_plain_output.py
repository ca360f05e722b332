import pytest
from hypothesis import given, settings

from prompt.streams import cut
from prompt.test_parse_streams import SIZES, STOPS, TEXTS
from whitedwarf.conversation.events import BackendReason, Event, Finished, FinishReason, TextDelta
from whitedwarf.prompt.plain_output import PlainOutput
from whitedwarf.prompt.tokenizer import Tokenizer


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def fed(output: PlainOutput, pieces: list[str] | list[list[int]]) -> list[Event]:
    events: list[Event] = []
    for piece in pieces:
        if not output.is_finished:
            events += output.feed_text(piece) if isinstance(piece, str) else output.feed_ids(piece)
    return events + output.finish(BackendReason.STOP)


def ends(events: list[Event]) -> list[tuple[FinishReason, str | None]]:
    return [(event.reason, event.stop_string) for event in events if isinstance(event, Finished)]


@settings(max_examples=200)
@given(TEXTS, SIZES)
def test_text_comes_out_as_it_went_in(text: str, sizes: list[int]) -> None:
    events = fed(PlainOutput(), cut(text, sizes))
    assert text_of(events) == text
    assert ends(events) == [(FinishReason.STOP, None)]


@settings(max_examples=200)
@given(TEXTS, SIZES)
def test_ids_come_out_as_they_are_spelt(nano: Tokenizer, text: str, sizes: list[int]) -> None:
    rest = nano.encode_rendered(text)
    groups = []
    for size in sizes:
        groups.append(rest[:size])
        rest = rest[size:]
    assert text_of(fed(PlainOutput((), nano), [*groups, rest])) == text


@settings(max_examples=300)
@given(TEXTS, SIZES, STOPS)
def test_text_ends_before_the_first_stop_string(text: str, sizes: list[int], stops: tuple[str, ...]) -> None:
    found = [(text.index(stop) + len(stop), place, stop) for place, stop in enumerate(stops) if stop in text]
    events = fed(PlainOutput(stops), cut(text, sizes))
    if not found:
        assert text_of(events) == text
    else:
        end, _, stop = min(found)
        assert text_of(events) == text[: end - len(stop)]
        assert ends(events) == [(FinishReason.STOP_STRING, stop)]


def test_a_control_token_is_no_part_of_a_stop_string(nano: Tokenizer) -> None:
    ids = nano.encode_rendered("a</think>b")
    assert text_of(fed(PlainOutput(("</think>",), nano), [ids])) == "a</think>b"
    spelt = nano.encode("a</think>b")
    assert text_of(fed(PlainOutput(("</think>",), nano), [spelt])) == "a"


def test_what_does_not_fit_is_refused(nano: Tokenizer) -> None:
    with pytest.raises(ValueError, match="no tokenizer"):
        PlainOutput().feed_ids([1])
    output = PlainOutput()
    assert ends(output.finish(BackendReason.LENGTH)) == [(FinishReason.LENGTH, None)]
    assert output.finish() == []
    with pytest.raises(ValueError, match="finished"):
        output.feed_text("more")


@pytest.mark.parametrize("last", [[], ["</think>"]], ids=["the end", "a control token"])
def test_half_a_character_is_told_also_where_its_token_has_told_other_text(nano: Tokenizer, last: list[str]) -> None:
    ids = nano.vocabulary.text_ids
    half = ids["Ã"]  # of the byte C3, which begins a character
    given_ids = [half, half, *[nano.vocabulary.special_ids[token] for token in last]]
    assert text_of(fed(PlainOutput((), nano), [[one] for one in given_ids])) == nano.decode(given_ids)
