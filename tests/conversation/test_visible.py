"""What a terminal would obey, or what hides, is shown as a dot."""

from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent.tui.shown import shown
from whitedwarf.conversation.visible import visible


def test_what_would_be_obeyed_or_hides_is_a_dot() -> None:
    assert visible("\033[2J\r\x9b1m\x7f") == "·[2J··1m·"
    assert visible("a\u202eb\u2066c\u200fd\u2028e\U000e0041f") == "a·b·c·d·e·f"
    assert visible("Zeile\n\t日本 👩‍🚀 é\n") == "Zeile\n\t日本 👩‍🚀 é\n"


@given(st.text())
def test_lines_and_the_screen_hide_the_same(text: str) -> None:
    text = text.replace("\r\n", "\n").replace("\ufeff", "")  # a mark inside a text, which the screen shows
    assert all((visible(one) == one) == (shown(one) == one) for one in text)


@given(st.text(), st.integers(0, 50))
def test_any_split_gives_the_same(text: str, place: int) -> None:
    assert visible(text[:place]) + visible(text[place:]) == visible(text)
