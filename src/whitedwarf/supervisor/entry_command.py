"""How the server of one entry is run: the program, and its arguments less what commands.py adds when it starts.

Pure: nothing is looked for, nothing is opened.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from whitedwarf.supervisor import arguments as given
from whitedwarf.supervisor.config import Backend
from whitedwarf.supervisor.config_table import Table, first_with

DEFAULT_CONTEXT = 32_768
_PLAIN_CACHES = ("f32", "f16", "bf16")
_CHOSEN_HERE = ("--host", "--port")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an entry is read with: the file's folder, its defaults and top, and how servers are run."""

    folder: Path
    defaults: Table
    top: Table
    backend: Backend
    llama_program: tuple[str, ...] = ("llama-server",)
    llama_arguments: tuple[str, ...] = ()
    own_arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def program_of(table: Table, default: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """`bin`: a program with what always comes after it. A name is looked for in $PATH, a relative path
    starts in the folder."""
    words = table.texts("bin")
    if not table.has("bin"):
        return default
    if not words or not words[0].strip():
        table.fail("bin", "expected a program, such as llama-server")
    first = words[0]
    if "/" in first or "\\" in first or first.startswith("~"):
        first = str(absolute(first, folder))
    return (first, *words[1:])


def absolute(written: str, folder: Path) -> Path:
    """A path of the config: ~ is the home folder, and relative ones start where the config lies."""
    try:
        return folder / Path(written).expanduser()
    except RuntimeError:  # no home folder
        return folder / written


class EntryCommand:
    """How the entry's server is run, less what commands.py adds when it starts."""

    def __init__(self, entry: Table, around: Surroundings) -> None:
        self._entry, self._around = entry, around
        self.own_words = entry.texts("args")
        self.backend = first_with("backend", entry, around.defaults).choice("backend", around.backend)
        self.path = absolute(entry.text("path") or given.option_of(self.own_words, given.MODEL) or "", around.folder)
        if self.backend is Backend.LLAMA_SERVER:
            self._use_llama_server()
        else:
            self._use_ours()

    def _use_llama_server(self) -> None:
        around, common = self._around, self._around.llama_arguments
        self.program = program_of(self._entry, around.llama_program, around.folder)
        self.context_size = self._context(given.CONTEXT, common)
        if self._entry.has("args"):
            model = () if given.has_option(self.own_words, given.ANY_MODEL) else ("-m", str(self.path))
            self.arguments = (*common, *model, *self.own_words)
        else:
            self.arguments = (*common, *self._generated(common))

    def _use_ours(self) -> None:
        around, entry = self._around, self._entry
        for name in ("cacheTypeK", "cacheTypeV", "mtp", "bin"):
            if entry.has(name):
                entry.fail(name, 'only backend "llama-server" has this; leave it out')
        words = (*around.own_arguments, *self.own_words)
        if given.has_option(words, _CHOSEN_HERE):
            entry.fail("args", "--host and --port are chosen here: use publicPort and internalPort")
        self.program = (sys.executable, "-P", "-m", "whitedwarf", "serve")  # -P: not from the folder we are in
        self.context_size = self._context(given.OUR_CONTEXT, around.own_arguments)
        model = () if given.has_option(words, given.MODEL) else ("-m", str(self.path))
        is_said = entry.has("ctxSize") or around.defaults.has("ctxSize")
        context = (
            ("--ctx", str(self.context_size)) if is_said and not given.has_option(words, given.OUR_CONTEXT) else ()
        )
        self.arguments = (*model, *context, *words)

    def _context(self, names: tuple[str, ...], common: tuple[str, ...]) -> int:
        said = given.whole_of(self.own_words, names)
        if said is not None:
            return said
        table = first_with("ctxSize", self._entry, self._around.defaults)
        if table.has("ctxSize"):
            return table.whole("ctxSize", DEFAULT_CONTEXT, least=1)
        in_common = given.whole_of(common, names)
        return DEFAULT_CONTEXT if in_common is None else in_common

    def _generated(self, common: tuple[str, ...]) -> tuple[str, ...]:
        """What the seed's supervisor makes of an entry without `args`."""
        words = ["-m", str(self.path), "-c", str(self.context_size)]
        if (key_type := self._cache("cacheTypeK", "q8_0", given.CACHE_K, common)) is not None:
            words += ["--cache-type-k", key_type]
        if (value_type := self._cache("cacheTypeV", "q4_0", given.CACHE_V, common)) is not None:
            words += ["--cache-type-v", self._without_flash(value_type, common)]
        if self._entry.flag("mtp", default=False):
            words += ["--spec-type", "draft-mtp"]
        return tuple(words)

    def _cache(self, name: str, default: str, names: tuple[str, ...], common: tuple[str, ...]) -> str | None:
        table = first_with(name, self._entry, self._around.defaults)
        if not table.has(name) and given.has_option(common, names):
            return None  # said for all already
        return table.text(name, default)

    def _without_flash(self, value_type: str, common: tuple[str, ...]) -> str:
        """llama-server keeps quantised values only with flash attention, and dies where it is off."""
        if given.option_of(common, given.FLASH) not in ("off", "0") or value_type in _PLAIN_CACHES:
            return value_type
        table = first_with("cacheTypeV", self._entry, self._around.defaults)
        if table.has("cacheTypeV"):
            table.fail("cacheTypeV", f"{value_type} needs flash attention, and llamaServer.args turn it off; use f16")
        return "f16"
