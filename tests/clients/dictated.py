"""`python dictated.py SCRIPT serve …`: the real command and the bundled model, which says what a script dictates.

The bundled model knows nothing of tools, so no agent would ever run one for it. Here prompts are read, and states kept,
saved and found again as always; only the logits after a prompt, and after each dictated token, are replaced by ones
that leave one token to draw. An answer of the script is for one request, in the order in which those begin.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from whitedwarf.cli import serving
from whitedwarf.cli.loading import open_gguf, open_tokenizer
from whitedwarf.cli.main import main
from whitedwarf.engine.drafts import Drafting
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.model.base import DraftAsk, DraftBlock, DraftState, Logits, Model, ModelSize, Pace, Span, State
from whitedwarf.server.script import ScriptWords, read_script
from whitedwarf.weights.store import bundled_model


class Dictated:
    """A model in all but what it finds likely."""

    def __init__(self, model: Model, answers: Sequence[ScriptedAnswer]) -> None:
        self.model = model
        self._answers = [_tokens(answer) for answer in answers]
        self._saying: dict[int, tuple[list[int], int]] = {}  # by state: an answer, and how much of it was dictated

    @property
    def config(self) -> ModelSize:
        return self.model.config

    def new_state(self) -> State:
        return self.model.new_state()

    def forward(self, spans: Sequence[Span]) -> list[Logits]:
        """The model's own, but for what is drawn from."""
        return self.dictated(spans, self.model.forward(spans))

    def dictated(self, spans: Sequence[Span], found: Sequence[Logits]) -> list[Logits]:
        """What is drawn from, in place of what the model found."""
        pairs = zip(spans, found, strict=True)
        return [logits if span.logits == "none" else self._dictate(span, logits) for span, logits in pairs]

    def _dictate(self, span: Span, logits: Logits) -> Logits:
        tokens, said = self._saying.pop(id(span.state), ([], 0))
        is_piece = not said or span.ids[0] != tokens[said - 1] or (len(span.ids) > 1 and span.logits != "all")
        if is_piece:  # of a prompt, maybe the last one
            tokens, said = self._answers[0], 0
        elif said == 1:
            self._answers.remove(tokens)
        drafts = [] if is_piece else span.ids[1:].tolist()
        num_right = 0
        while num_right < len(drafts) and tokens[said + num_right : -1][:1] == [drafts[num_right]]:
            num_right += 1
        only = np.full_like(logits, -1e9)
        only[:, 0] = 0  # behind a wrong draft nobody draws
        for offset, token in enumerate(tokens[said : said + num_right + 1]):
            row = len(only) - 1 - len(drafts) + offset
            only[row, 0], only[row, token] = -1e9, 0
        self._saying[id(span.state)] = (tokens, said + num_right + 1)
        return only


class DictatedBlock:
    """The model's block for drafts, beside what is dictated."""

    def __init__(self, block: DraftBlock) -> None:
        self._block = block

    def new_state(self) -> DraftState:
        return self._block.new_state()

    def draft(self, asks: Sequence[DraftAsk]) -> list[list[int]]:
        return self._block.draft(asks)

    def forward_noting(
        self, model: Model, spans: Sequence[Span], notes: Sequence[DraftState | None], pace: Pace | None = None
    ) -> list[Logits]:
        assert isinstance(model, Dictated)
        return model.dictated(spans, self._block.forward_noting(model.model, spans, notes, pace))


def _tokens(answer: ScriptedAnswer) -> list[int]:
    assert answer.stop_id is not None
    return [*(token for piece in answer.pieces for token in piece), answer.stop_id]


def dictate(script: Path) -> None:
    """From now on this process's engine says what is in the script."""
    gguf = open_gguf(bundled_model())
    answers = read_script(script, ScriptWords.of(open_tokenizer(gguf)))

    def engine(model: Model, drafting: Drafting | None = None, **settings: Any) -> Engine:
        if drafting is not None and drafting.block is not None:
            drafting = replace(drafting, block=DictatedBlock(drafting.block))
        return Engine(Dictated(model, answers), drafting=drafting, **settings)

    serving.Engine = engine  # type: ignore[misc,assignment]


if __name__ == "__main__":
    dictate(Path(sys.argv[1]))
    del sys.argv[1]
    sys.exit(main())
