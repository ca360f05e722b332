"""What clients are told of options that are not followed, the same in every dialect."""

from typing import Any

import pytest

from protocol.scripted_dialects import DIALECTS, Script
from whitedwarf.protocol.unfollowed_options import ignored_while_thinking, lowered_limit

LIMIT = {"chat": "max_tokens", "messages": "max_tokens", "responses": "max_output_tokens"}


def test_what_is_the_default_anyway_is_not_told() -> None:
    assert ignored_while_thinking({"temperature": 1, "top_p": 1.0, "top_k": None}, is_thinking=True) == ()
    assert ignored_while_thinking({"temperature": 0.5}, is_thinking=False) == ()
    (told,) = ignored_while_thinking({"temperature": 0.5, "top_k": 1}, is_thinking=True)
    assert told.endswith("temperature, top_k.")


def test_a_limit_is_told_only_where_it_was_lowered() -> None:
    assert lowered_limit("max_tokens", 5, 5) == lowered_limit("max_tokens", None, 5) == ()
    assert lowered_limit("max_tokens", 6, 5) == ("max_tokens was lowered to 5, the most that is possible.",)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_tells_of_both(dialect: str) -> None:
    asked: dict[str, Any] = {LIMIT[dialect]: 10**7, "temperature": 0.5, "top_k": 3}
    lowered, ignored = Script(dialect, thinks=True, members=asked).converted().warnings
    assert lowered.startswith(f"{LIMIT[dialect]} was lowered to ")
    assert ignored == "Ignored while thinking, which has settings of its own: temperature, top_k."
