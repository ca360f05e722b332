"""Which ids an instrument reads: those of a text, or random ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.bench.speed import random_ids
from whitedwarf.cli.loading import LoadedModel
from whitedwarf.cli.oneshot import prompt_ids
from whitedwarf.cli.prompt_text import read_text
from whitedwarf.config import DEFAULT_SYSTEM
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.errors import UsageError
from whitedwarf.model.base import Ids


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPrompt:
    """At most one text."""

    prompt_file: Path | None = None
    """A long text to read, as it is. Default: random token ids, the same in every run."""
    chat_prompt_file: Path | None = None
    """A long text to read, as one message of a user who wants no thinking."""
    system: Annotated[str | None, Parameter(name=("--system", "-sys"), allow_leading_hyphen=True)] = None
    """System text before that message; needs --chat-prompt-file."""

    def check(self) -> None:
        """UsageError for options that contradict each other, or a file that cannot be read."""
        if self.prompt_file is not None and self.chat_prompt_file is not None:
            raise UsageError("--prompt-file and --chat-prompt-file exclude each other: give one")
        if self.system is not None and self.chat_prompt_file is None:
            raise UsageError("--system needs --chat-prompt-file: other texts are read as they are")
        if (path := self._path) is not None:
            read_text(str(path))

    @property
    def _path(self) -> Path | None:
        return self.prompt_file or self.chat_prompt_file

    def describe(self) -> str:
        """For reports."""
        return "random ids" if self._path is None else f"ids of {self._path.name}"

    def ids(self, loaded: LoadedModel, count: int) -> Ids:
        """At least `count`; UsageError where the text has fewer."""
        import numpy as np

        path = self._path
        if path is None:
            return random_ids(loaded.transformer.config.vocab_size, count)
        text, tokenizer = read_text(str(path)), loaded.tokenizer()
        if self.prompt_file is not None:
            found = tokenizer.encode_rendered(text)
        else:
            system = DEFAULT_SYSTEM if self.system is None else self.system
            found = prompt_ids(tokenizer, text, system, Thinking.NONE)
        if len(found) < count:
            raise UsageError(
                f"{path} has {len(found)} tokens, --ctx-max needs {count}: give a longer text or a smaller --ctx-max"
            )
        return np.array(found[:count], np.int32)
