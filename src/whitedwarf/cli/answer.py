"""One answer on the screen: runs a request and shows it as it comes.

Promises: the request has ended in the engine when this returns or raises, also on Ctrl+C.
"""

import sys
from dataclasses import dataclass

from whitedwarf.cli.answer_text import AnswerText, parse_start
from whitedwarf.cli.progress import ProgressLine, prefill_text
from whitedwarf.cli.screen import Screen
from whitedwarf.config import SamplingSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import Finished, FinishReason, GenerateOptions, Prefilled, SamplingOptions, Token
from whitedwarf.engine.session import Session
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Answer:
    """What was generated, and how it ended; interrupted answers hold what had come."""

    ids: tuple[int, ...]
    finished: Finished

    @property
    def is_interrupted(self) -> bool:
        return self.finished.reason is FinishReason.CANCELLED


def generate_options(sampling: SamplingSettings, tokenizer: Tokenizer) -> GenerateOptions:
    """The engine's options for an answer that ends at end-of-sentence."""
    return GenerateOptions(
        max_tokens=sampling.max_tokens,
        stop_ids=frozenset({tokenizer.special_id(SpecialToken.EOS)}),
        sampling=SamplingOptions(sampling.temperature, sampling.top_p, sampling.min_p, seed=sampling.seed),
    )


def show_answer(
    engine: Engine,
    tokenizer: Tokenizer,
    prompt: list[int],
    options: GenerateOptions,
    session: Session | None = None,
) -> Answer:
    """Run a request and print it; Ctrl+C ends it early and is told in the result, not raised."""
    text = AnswerText(tokenizer, parse_start(prompt, tokenizer))
    screen, progress = Screen(sys.stdout), ProgressLine()
    try:
        with engine.submit(prompt, options, session=session) as generation:
            try:
                _follow(generation, text, screen, progress)
            except KeyboardInterrupt:
                generation.cancel()  # takes effect after the forward pass in hand; leaving the block waits for it
        _follow(generation, text, screen, progress)  # what had come by then and was not yet shown
    finally:
        progress.clear()
        for piece in text.finish():
            screen.show(piece)
        screen.finish()
    result = generation.result()
    return Answer(tuple(result.ids), result.finished)


def _follow(generation: Generation, text: AnswerText, screen: Screen, progress: ProgressLine) -> None:
    for event in generation:
        match event:
            case Prefilled() if event.processed:
                progress.show(prefill_text(event))
            case Token():
                progress.clear()
                for piece in text.feed(event.id):
                    screen.show(piece)
