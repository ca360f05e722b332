"""A vectors file on standard input, line by line, to standard output: the loop of the recipe commands.

Promises: one line out for every line in that is not blank, in order, before the next is read; a line that cannot be
used gives its `id` and an `error`, and the work goes on. JSON out is ASCII, as in the files.
"""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from whitedwarf.errors import WhitedwarfError
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import word_for

Line: TypeAlias = dict[str, Any]
Result: TypeAlias = dict[str, Any]


class LineError(WhitedwarfError):
    """A line is not what a vectors file has."""


def answer_lines(answer: Callable[[Line], Result], lines: Iterable[bytes] | None = None) -> None:
    """Print `answer` of each line, with the line's `id` in front."""
    for number, line in enumerate(sys.stdin.buffer if lines is None else lines, 1):
        if line.strip():
            print(json.dumps(_answered(answer, line, number)), flush=True)


def member(line: Line, name: str, kind: type) -> Any:
    """A member that the line has to have; LineError without."""
    if name not in line:
        raise LineError(f"the line has no {name!r}; expected one, as the vectors files have")
    if not isinstance(line[name], kind):
        raise LineError(f"{name!r} is {word_for(line[name])}; expected a {kind.__name__}")
    return line[name]


def _answered(answer: Callable[[Line], Result], text: bytes, number: int) -> Result:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        return {"id": None, "error": f"line {number} is not JSON that can be read: {error}"}
    if not isinstance(line, dict):
        return {"id": None, "error": f"line {number} is {word_for(line)[:80]}; expected an object with an 'id'"}
    return {"id": line.get("id")} | _result(answer, line)


def _result(answer: Callable[[Line], Result], line: Line) -> Result:
    try:
        return answer(line)
    except MalformedRequest as error:
        return {"error": f"the line is not as expected: {error}"}
    except WhitedwarfError as error:
        return {"error": str(error)}
    except RecursionError:
        return {"error": "the line is nested too deeply"}
    except (ValueError, ArithmeticError) as error:  # numbers that are none in JSON, or too large for what they are
        return {"error": f"the line cannot be used: {error}"}
