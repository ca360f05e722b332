"""`python dictated.py SCRIPT serve …`: the real command and the bundled model, which says what a script dictates.

The bundled model knows nothing of tools, so no agent would ever run one for it. Here prompts are read, and states kept,
saved and found again as always; only the logits after a prompt, and after each dictated token, are replaced by ones
that leave one token to draw. An answer of the script is for one request, in the order in which those begin.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whitedwarf.cli import serving
from whitedwarf.cli.loading import open_gguf, open_tokenizer
from whitedwarf.cli.main import main
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.model.base import Logits, Model, ModelSize, Span, State
from whitedwarf.server.script import ScriptWords, read_script
from whitedwarf.weights.store import bundled_model


class Dictated:
    """A model in all but what it finds likely."""

    def __init__(self, model: Model, answers: Sequence[ScriptedAnswer]) -> None:
        self._model = model
        self._answers = [_tokens(answer) for answer in answers]
        self._saying: dict[int, tuple[list[int], int]] = {}  # by state: an answer, and how much of it was dictated

    @property
    def config(self) -> ModelSize:
        return self._model.config

    def new_state(self) -> State:
        return self._model.new_state()

    def forward(self, spans: Sequence[Span]) -> list[Logits]:
        """The model's own, but for what is drawn from."""
        pairs = zip(spans, self._model.forward(spans), strict=True)
        return [logits if span.logits == "none" else self._dictate(span, logits) for span, logits in pairs]

    def _dictate(self, span: Span, logits: Logits) -> Logits:
        tokens, said = self._saying.pop(id(span.state), ([], 0))
        if not said or span.ids.tolist() != [tokens[said - 1]]:  # a piece of a prompt, maybe the last one
            tokens, said = self._answers[0], 0
        elif said == 1:
            self._answers.remove(tokens)
        self._saying[id(span.state)] = (tokens, said + 1)
        only = np.full_like(logits, -1e9)
        only[-1, tokens[said]] = 0
        return only


def _tokens(answer: ScriptedAnswer) -> list[int]:
    assert answer.stop_id is not None
    return [*(token for piece in answer.pieces for token in piece), answer.stop_id]


def dictate(script: Path) -> None:
    """From now on this process's engine says what is in the script."""
    gguf = open_gguf(bundled_model())
    answers = read_script(script, ScriptWords.of(open_tokenizer(gguf)))

    def engine(model: Model, **settings: Any) -> Engine:
        return Engine(Dictated(model, answers), **settings)

    serving.Engine = engine  # type: ignore[misc,assignment]


if __name__ == "__main__":
    dictate(Path(sys.argv[1]))
    del sys.argv[1]
    sys.exit(main())
