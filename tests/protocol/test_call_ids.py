import re

from whitedwarf.protocol.call_ids import CallIds, random_call_suffix


def test_an_id_tells_which_call_it_is_and_ends_in_what_nobody_can_guess() -> None:
    ids = CallIds(is_thinking=False)
    first, second, late = ids.new(0), ids.new(1), ids.new(119)
    assert re.fullmatch(r"call_00_[A-Za-z0-9]{20}[0-9]{4}", first)
    assert re.fullmatch(r"call_01_[A-Za-z0-9]{20}[0-9]{4}", second)
    assert re.fullmatch(r"call_119_[A-Za-z0-9]{20}[0-9]{4}", late)
    assert len({random_call_suffix() for _ in range(1000)}) == 1000


def test_a_call_without_the_thought_that_was_due_is_marked() -> None:
    ids = CallIds(is_thinking=True, suffix=lambda: "x")
    assert ids.new(0) == "call_00_ET_x"
    ids.note_reasoning()
    assert ids.new(1) == "call_01_x"


def test_a_model_that_was_not_to_think_owes_no_thought() -> None:
    assert CallIds(is_thinking=False, suffix=lambda: "x").new(2) == "call_02_x"
