"""How a log line looks: time, event, then what belongs to it as name=value.

Promises: one line per event but for a traceback, whatever a client put into it.
"""

import json
import logging
import time

_OWN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}


class LogLines(logging.Formatter):
    """Structured records as text."""

    def format(self, record: logging.LogRecord) -> str:
        """`0314 15:09:26 request_ended dialect=chat prompt=12`."""
        facts = _facts(record)
        moment = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        words = [moment, _one_line(record.getMessage()), *(f"{name}={_shown(value)}" for name, value in facts.items())]
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return " ".join(words) + trace


class JsonLines(logging.Formatter):
    """The same as JSON, one object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """`{"time": …, "level": "info", "event": "request_ended", "dialect": "chat", …}`; times in UTC."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        told = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage(), **_facts(record)}
        trace = {"traceback": self.formatException(record.exc_info)} if record.exc_info else {}
        return json.dumps(told | trace, ensure_ascii=False, default=str)


def _facts(record: logging.LogRecord) -> dict[str, object]:
    """What belongs to the event."""
    return {name: value for name, value in record.__dict__.items() if name not in _OWN and value != ""}


def _shown(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)


def _one_line(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)
