"""What a request said and is not acted on: few sentences, each once."""

from whitedwarf.protocol.notes import MAX_NOTES, Notes, shortened


def test_a_sentence_is_kept_once_and_in_order() -> None:
    notes = Notes()
    for sentence in ("b", "a", "b"):
        notes.warn(sentence)
    assert notes.sentences == ("b", "a")


def test_there_are_never_more_than_a_few() -> None:
    notes = Notes()
    for number in range(1000):
        notes.warn(str(number))
    assert len(notes.sentences) == MAX_NOTES


def test_values_are_shown_in_short() -> None:
    assert shortened("x") == "'x'"
    assert shortened(None) == "null"
    assert shortened({"a": 1}) == "an object"
    assert len(shortened("x" * 1000)) < 70
