"""A conversation as token ids, and which of them are trained: every assistant turn, not only the last.

A document that has few trained tokens weighs more per token, so that single questions are not drowned by long sessions.
"""

from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from nano.curriculum.conversation import Conversation
from nano.curriculum.drills import Recital
from nano.curriculum.rendering import render

BEGINNING_TOKENS = 4


class Encoder:
    """Text -> token ids with nano's own tokenizer, and which of them are trained."""

    def __init__(self, tokenizer_file: Path):
        self._tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self.assistant, self.end = map(self.id_of, ("<｜Assistant｜>", "<｜end▁of▁sentence｜>"))
        self.thinks = {self.id_of("<think>"), self.id_of("</think>")}

    def id_of(self, text: str) -> int:
        return int(self._tokenizer.token_to_id(text))

    def ids(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))

    def document(self, conversation: Conversation) -> "Document":
        prompt, answer = map(self.ids, render(conversation))
        trained = [*self._earlier_answers(prompt), *([True] * len(answer))]
        return Document([*prompt, *answer], trained)

    def recital(self, drill: Recital) -> "Document":
        prompt = self.ids(render(drill.prompt)[0])
        answer = self._tokenizer.encode(drill.answer, add_special_tokens=False)
        spans = iter(drill.spans)
        span, trained = next(spans), []
        for start, end in answer.offsets:
            while span is not None and span[1] <= start:
                span = next(spans, None)
            trained.append(span is not None and end > span[0])
        return Document([*prompt, *answer.ids], [False] * len(prompt) + trained)

    def _earlier_answers(self, prompt: list[int]) -> list[bool]:
        """What the assistant said before: from behind its `<think>` or `</think>` to the end of its sentence."""
        trained = [False] * len(prompt)
        is_inside = False
        for place in range(2, len(prompt)):
            if not is_inside:
                is_inside = prompt[place - 2] == self.assistant and prompt[place - 1] in self.thinks
            trained[place] = is_inside
            is_inside = is_inside and prompt[place] != self.end
        return trained


@dataclass(frozen=True)
class Document:
    """Token ids and which of them are trained."""

    ids: list[int]
    trained: list[bool]

    def cut(self, length: int) -> "Document":
        return Document(self.ids[:length], self.trained[:length])

    @property
    def weight(self) -> float:
        """Of each trained token."""
        return min(2.0, max(0.5, (120 / max(sum(self.trained), 1)) ** 0.35))

    def weights(self, beginnings: float = 1.0) -> list[float]:
        """Of all tokens; the first ones of each answer, which say what kind of answer it is, `beginnings` times."""
        found = []
        for place, is_trained in enumerate(self.trained):
            begins = not all(self.trained[max(0, place - BEGINNING_TOKENS) : place])
            found.append(is_trained * self.weight * (beginnings if begins else 1.0))
        return found

    def answers_one_of(self, prompts: dict[int, set[tuple[int, ...]]]) -> bool:
        """Whether an answer in it follows exactly one of the prompts (by length)."""
        return any(
            length < len(self.ids)
            and self.trained[length]
            and not self.trained[length - 1]
            and tuple(self.ids[:length]) in some
            for length, some in prompts.items()
        )
