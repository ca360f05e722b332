"""One prompt, one answer, and the speeds as the last line on stderr."""

import signal
import sys

from whitedwarf.cli.answer import Answer, generate_options, show_answer
from whitedwarf.cli.loading import LoadedModel, note
from whitedwarf.cli.progress import experts_text, speeds_text
from whitedwarf.config import SamplingSettings
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import SystemMessage, UserMessage
from whitedwarf.conversation.thinking import MAX_THINKING_CONTEXT, Thinking
from whitedwarf.prompt.encode_v4 import encode
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer


def answer_once(
    loaded: LoadedModel,
    tokenizer: Tokenizer,
    text: str,
    system: str,
    thinking: Thinking,
    sampling: SamplingSettings,
) -> Answer:
    """Print the answer to `text`."""
    allowed = thinking.within(loaded.context_length)
    if allowed is not thinking:
        note(f"--think-max needs --ctx {MAX_THINKING_CONTEXT} or more, this is {loaded.context_length}: using --think")
    prompt = prompt_ids(tokenizer, text, system, allowed)
    before = loaded.expert_counts()
    with loaded.engine() as engine:
        try:
            answer = show_answer(engine, tokenizer, prompt, generate_options(sampling, tokenizer))
        except KeyboardInterrupt:  # the second one: nobody waits for the forward pass in hand
            _die_of_interrupt()
            raise
    print(f"{speeds_text(answer.finished)}{experts_text(before, loaded.expert_counts())}", file=sys.stderr)
    return answer


def _die_of_interrupt() -> None:
    """End as the signal would have it, without the interpreter's farewell, which would wait for the engine."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.raise_signal(signal.SIGINT)


def prompt_ids(tokenizer: Tokenizer, text: str, system: str, thinking: Thinking) -> list[int]:
    """A text that starts with the begin-of-sentence marker is a rendered chat; any other is what the user says."""
    if text.startswith(SpecialToken.BOS):
        return tokenizer.encode_rendered(text)
    chat = (SystemMessage(system), UserMessage(text))
    conversation = Conversation(chat, is_thinking=thinking.is_on, reasoning_effort=thinking.effort)
    return tokenizer.encode_segments(encode(conversation).segments)
