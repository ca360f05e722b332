"""One object of a config as people write it: which members it may have, and each of its right type.

Promises: an unknown member is refused with the one that was probably meant; `ctxSize` and `ctx_size` are the same, and
so are old names, but both at once are refused; what is wrong is told with the member's path, such as
models[2].ctxSize. `null` is the same as leaving a member out. Does not know what members mean.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NoReturn, TypeVar

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.sizes import size_of

Choice = TypeVar("Choice", bound=StrEnum)
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_MOST_SHOWN = 60


def snake_case(name: str) -> str:
    """ctxSize as TOML's people write it: ctx_size."""
    return _HUMP.sub(lambda found: f"_{found[1].lower()}", name)


class Table:
    """An object. `names`: the members it may have, in camelCase; `old_names` lead to them; `elsewhere` says of others
    where they belong."""

    def __init__(
        self,
        value: object,
        path: str,
        names: Iterable[str],
        old_names: Mapping[str, str] | None = None,
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        self.path = path
        self._elsewhere = elsewhere or {}
        if not isinstance(value, dict):
            _refuse(path or "the file", "an object {…} of named values", value)
        self._members: dict[str, object] = {}
        self._spellings: dict[str, str] = {}
        known = {snake_case(name): name for name in names} | {name: name for name in names} | dict(old_names or {})
        for spelling, member in value.items():
            self._take(str(spelling), member, known)

    def _take(self, spelling: str, member: object, known: Mapping[str, str]) -> None:
        name = known.get(spelling)
        if name is None:
            raise UsageError(f"{self._path(spelling)} is unknown here; {self._suggestion(spelling, known)}")
        if name in self._spellings:
            both = f"{self._spellings[name]!r} and {spelling!r}"
            raise UsageError(f"{self.path or 'the file'} has {both}, which are the same; leave one out")
        self._spellings[name] = spelling
        if member is not None:
            self._members[name] = member

    def _suggestion(self, spelling: str, known: Mapping[str, str]) -> str:
        place = next((place for name, place in self._elsewhere.items() if spelling in (name, snake_case(name))), None)
        return f"it belongs {place}" if place else _suggestion(spelling, known)

    def has(self, name: str) -> bool:
        """Whether it was given."""
        return name in self._members

    def where(self, name: str) -> str:
        """The member's path, as it was written."""
        return self._path(self._spellings.get(name, name))

    def fail(self, name: str, message: str) -> NoReturn:
        """UsageError about this member."""
        raise UsageError(f"{self.where(name)}: {message}")

    def text(self, name: str, default: str = "") -> str:
        """A text of one line, and not an empty one."""
        value = self._members.get(name)
        return default if value is None else _text(value, self.where(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, or one text alone."""
        value = self._members.get(name)
        if value is None:
            return ()
        if isinstance(value, str):
            return (_text(value, self.where(name)),)
        if not isinstance(value, list):
            _refuse(self.where(name), "a list of texts", value)
        return tuple(_word(item, f"{self.where(name)}[{index}]") for index, item in enumerate(value))

    def flag(self, name: str, *, default: bool) -> bool:
        """true or false."""
        value = self._members.get(name, default)
        if not isinstance(value, bool):
            _refuse(self.where(name), "true or false", value)
        return value

    def whole(self, name: str, default: int, *, least: int = 0, most: int = 1 << 53) -> int:
        """A whole number within bounds."""
        value = self._members.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            _refuse(self.where(name), "a whole number", value)
        if not least <= value <= most:
            _refuse(self.where(name), f"a whole number from {least} to {most}", value)
        return value

    def number(self, name: str, default: float, *, least: float = 0.0, most: float = 1e9) -> float:
        """A number within bounds."""
        value = self._members.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            _refuse(self.where(name), "a number", value)
        if not least <= value <= most:
            _refuse(self.where(name), f"a number from {least:g} to {most:g}", value)
        return float(value)

    def size(self, name: str, default: int) -> int:
        """Bytes: a whole number of them, or a text such as "20 GB"."""
        value = self._members.get(name)
        if value is None:
            return default
        try:
            return size_of(value)
        except ValueError:
            _refuse(self.where(name), 'a size such as "20 GB" or a whole number of bytes', value)

    def choice(self, name: str, default: Choice) -> Choice:
        """One of a few words."""
        value = self._members.get(name)
        if value is None:
            return default
        found = next((one for one in type(default) if value == one.value), None)
        if found is None:
            _refuse(self.where(name), " or ".join(f'"{one.value}"' for one in type(default)), value)
        return found

    def value(self, name: str) -> object:
        """As it was written, None where it was not."""
        return self._members.get(name)

    def table(self, name: str, names: Iterable[str], elsewhere: Mapping[str, str] | None = None) -> "Table":
        """An object in this one, an empty one where it was not given."""
        return Table(self._members.get(name, {}), self.where(name), names, elsewhere=elsewhere)

    def items(self, name: str) -> list[object]:
        """A list of anything."""
        value = self._members.get(name)
        if not isinstance(value, list):
            _refuse(self.where(name), f"a list […], in TOML [[{name}]]", value)
        return value

    def _path(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def _suggestion(spelling: str, known: Mapping[str, str]) -> str:
    import difflib  # memory that a right config does not cost

    folded = {name.replace("_", "").lower(): name for name in known.values()}
    close = difflib.get_close_matches(spelling.replace("_", "").lower(), folded, 1, 0.6)
    if not close:
        return f"known are {', '.join(sorted(folded.values()))}"
    name = folded[close[0]]
    return f"did you mean {(snake_case(name) if '_' in spelling else name)!r}?"


def first_with(name: str, *tables: Table) -> Table:
    """Of several that may say it, the first that does; the last where none does."""
    return next((table for table in tables if table.has(name)), tables[-1])


def shown(value: object) -> str:
    """What was written instead, short."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except TypeError:  # TOML's dates
        text = str(value)
    except (ValueError, RecursionError):  # longer, or deeper, than Python writes
        text = "too much to be shown"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all others
        return False


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        _refuse(where, "a text", value)
    if not all(map(_is_plain, value)):
        _refuse(where, "a text without control characters", value)
    return value


def _word(value: object, where: str) -> str:
    """As a program's argument may be: also empty, or several lines."""
    if not isinstance(value, str) or "\0" in value:
        _refuse(where, "a text", value)
    return value


def _is_plain(character: str) -> bool:
    return character >= " " and not "\x7f" <= character <= "\x9f"


def _refuse(where: str, expected: str, value: object) -> NoReturn:
    got = "nothing" if value is None else shown(value)
    raise UsageError(f"{where}: expected {expected}, got {got}")
