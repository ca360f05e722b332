"""The table of where two prompts part, over any two prompts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.gguf.reader import open_gguf
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server.parting import WINDOW, parting_table
from whitedwarf.weights.store import bundled_model

IDS = st.lists(st.integers(0, 200), max_size=30)


def tokenizer_of_nano() -> Tokenizer:
    with open_gguf(bundled_model()) as gguf:
        return Tokenizer.from_metadata(gguf.metadata)


NANO = tokenizer_of_nano()


@given(IDS, IDS, IDS)
def test_it_shows_both_sides_and_marks_what_differs(shared: list[int], ours: list[int], theirs: list[int]) -> None:
    prompt = np.array([*shared, *ours], np.int32)
    seen = tuple(theirs[:WINDOW])
    table = parting_table(prompt, len(shared), seen, NANO)
    if not seen:
        assert table == ""
        return
    first, *lines = table.splitlines()
    assert first == f"first_difference: {len(shared)}"
    before = min(WINDOW, len(shared))
    after = max(len(ours[:WINDOW]), len(seen))
    assert len(lines) == before + after
    assert [line.split()[1] for line in lines[:before]] == ["=="] * before
    marks = [line.split()[1] for line in lines[before:]]
    assert marks.count("live-only") == max(0, len(seen) - len(ours))
    assert marks.count("prompt-only") == max(0, len(ours[:WINDOW]) - len(seen))
    assert marks.count("==") == sum(a == b for a, b in zip(ours, seen, strict=False))


def test_a_token_is_shown_as_its_text_on_one_line() -> None:
    newline = NANO.encode("\n\n")[0]
    table = parting_table(np.array([newline], np.int32), 0, (newline + 1,), NANO)
    assert len(table.splitlines()) == 2
    assert "\\n" in table
