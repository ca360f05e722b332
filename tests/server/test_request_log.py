import json
import logging
import re
import sys

from whitedwarf.server.request_log import JsonLines, LogLines


def line(message: str, **facts: object) -> str:
    return LogLines().format(logging.makeLogRecord({"msg": message, **facts}))


def test_a_line_has_a_time_an_event_and_its_facts() -> None:
    shown = line("request_ended", dialect="chat", prompt=12, why="")
    assert re.fullmatch(r"\d{4} \d\d:\d\d:\d\d request_ended dialect=chat prompt=12", shown)


def test_whatever_a_client_wrote_stays_in_one_line() -> None:
    shown = line("a\nb", why='no\nmodel "x"\x1b[0m')
    assert shown.endswith(r'"a\nb" why="no\nmodel \"x\"\u001b[0m"')


def test_json_has_the_same_and_a_traceback_in_one_line() -> None:
    try:
        raise ValueError("bad\nluck")
    except ValueError:
        facts = {"msg": "answer_failed", "levelname": "INFO", "dialect": "chat", "why": "", "exc_info": sys.exc_info()}
    record = logging.makeLogRecord(facts)
    shown = JsonLines().format(record)
    told = json.loads(shown)
    assert "\n" not in shown
    assert (told["event"], told["level"], told["dialect"], "why" in told) == ("answer_failed", "info", "chat", False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told["time"])
    assert told["traceback"].endswith("ValueError: bad\nluck")
