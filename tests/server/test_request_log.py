import logging
import re

from whitedwarf.server.request_log import LogLines


def line(message: str, **facts: object) -> str:
    return LogLines().format(logging.makeLogRecord({"msg": message, **facts}))


def test_a_line_has_a_time_an_event_and_its_facts() -> None:
    shown = line("request_ended", dialect="chat", prompt=12, why="")
    assert re.fullmatch(r"\d{4} \d\d:\d\d:\d\d request_ended dialect=chat prompt=12", shown)


def test_whatever_a_client_wrote_stays_in_one_line() -> None:
    shown = line("a\nb", why='no\nmodel "x"\x1b[0m')
    assert shown.endswith(r'"a\nb" why="no\nmodel \"x\"\u001b[0m"')
