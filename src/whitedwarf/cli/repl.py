"""The chat: reads lines, knows the slash commands, keeps the transcript (spec/product.md A.3).

Promises: a failed or interrupted turn never ends the chat and never leaves half a turn behind.
"""

import sys
from dataclasses import replace

from whitedwarf.cli.answer import generate_options, show_answer
from whitedwarf.cli.line_editor import is_interactive, read_lines
from whitedwarf.cli.loading import LoadedModel, note
from whitedwarf.cli.progress import experts_text, speeds_text
from whitedwarf.cli.prompt_text import read_text
from whitedwarf.cli.transcript import Transcript
from whitedwarf.config import SamplingSettings
from whitedwarf.conversation.thinking import MAX_THINKING_CONTEXT, Thinking
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.power import FULL_POWER_PERCENT
from whitedwarf.errors import EngineClosedError, UsageError, WhitedwarfError
from whitedwarf.model.steering_wish import SteeringWish, asked_steering
from whitedwarf.prompt.tokenizer import Tokenizer

HELP = """\
/help                          this list
/think, /think-max, /nothink   how hard the model thinks before it answers
/ctx N                         start afresh with a context of N tokens
/steer FILE [FFN [ATTN]]       take FILE's directions out of what comes next; /steer FFN [ATTN] changes how much,
                               /steer off ends it, /steer tells what is set
/power N                       compute N percent of the time, to stay cool; /power tells what is set
/read FILE                     send a file's text as your message
/quit, /exit                   leave (or Ctrl+D)
Ctrl+C stops an answer; Alt+Enter starts a new line."""

_MODES = {"/think": Thinking.HIGH, "/think-max": Thinking.MAX, "/nothink": Thinking.NONE}
MAX_DIGITS = 18  # more is no context, and Python refuses to read numbers of thousands of digits
_LEAVE = ("/quit", "/exit")


class Repl:
    """One chat with one model."""

    def __init__(
        self,
        loaded: LoadedModel,
        tokenizer: Tokenizer,
        system: str,
        thinking: Thinking,
        sampling: SamplingSettings,
        wish: SteeringWish | None = None,
    ) -> None:
        """`wish`: the steering that `loaded` is under."""
        self._loaded = loaded
        self._wish = wish
        self._tokenizer = tokenizer
        self._system = system
        self._asked_thinking = thinking
        self._options = generate_options(sampling, tokenizer)
        self._start()

    def run(self) -> None:
        """Until /quit, /exit or the end of input."""
        if is_interactive():
            print(HELP)
        if self._asked_thinking is not self._transcript.thinking:
            note(self._mode_text())
        try:
            for line in read_lines():
                if line.strip() in _LEAVE:
                    break
                self._obey(line)
        finally:
            self._engine.close()

    def _start(self) -> None:
        """An empty chat on a new engine."""
        self._run_engine()
        allowed = self._asked_thinking.within(self._loaded.context_length)
        self._transcript = Transcript(self._tokenizer, self._system, allowed)

    def _run_engine(self) -> None:
        """A new engine, which knows nothing that was computed before."""
        self._engine: Engine = self._loaded.engine()
        self._session = self._engine.new_session()

    def _obey(self, line: str) -> None:
        try:
            if line.lstrip().startswith("/"):
                self._command(line.strip())
            elif line.strip():
                self._say(line)
        except EngineClosedError:
            raise  # nothing more can come of this chat
        except WhitedwarfError as error:
            note(str(error))
        except KeyboardInterrupt:
            print()  # while nothing was being generated: only back to the prompt

    def _command(self, line: str) -> None:
        word, _, argument = line.partition(" ")
        match word:
            case "/help":
                print(HELP)
            case "/think" | "/think-max" | "/nothink":
                self._asked_thinking = _MODES[word]
                self._transcript.thinking = self._asked_thinking.within(self._loaded.context_length)
                print(self._mode_text())
            case "/ctx":
                self._set_context(argument.strip())
            case "/steer":
                self._steer(argument)
            case "/power":
                self._set_power(argument.removesuffix("%").strip())
            case "/read":
                self._say(read_text(_required(word, argument.strip())))
            case _:
                print(f"unknown command {word}; /help lists them")

    def _say(self, text: str) -> None:
        """One turn. It is kept when anything was generated, else it is as if it had not been said."""
        prompt, before = self._transcript.prompt(text), self._loaded.expert_counts()
        answer = show_answer(self._engine, self._tokenizer, prompt, self._options, self._session)
        if answer.ids or not answer.is_interrupted:
            self._transcript.add(text, answer.ids)
        experts = experts_text(before, self._loaded.expert_counts())
        print(f"{speeds_text(answer.finished)}{experts}", file=sys.stderr)

    def _set_context(self, argument: str) -> None:
        if not argument.isdecimal() or len(argument) > MAX_DIGITS or int(argument) == 0:
            raise UsageError(f"/ctx {argument}: expected a number of tokens, such as /ctx 32768")
        loaded = self._loaded.with_context(int(argument))
        self._engine.close()
        self._loaded = loaded
        self._start()
        print(f"context: {loaded.context_length} tokens; the chat starts afresh")

    def _set_power(self, argument: str) -> None:
        if argument:
            percent = int(argument) if argument.isdecimal() and len(argument) <= MAX_DIGITS else 0
            if not 1 <= percent <= FULL_POWER_PERCENT:
                raise UsageError(f"/power {argument}: expected a number of percent from 1 to {FULL_POWER_PERCENT}")
            self._engine.power_percent = percent
            self._loaded = replace(self._loaded, settings=replace(self._loaded.settings, power=percent))
        print(f"power: {self._engine.power_percent} %")

    def _steer(self, argument: str) -> None:
        """The chat goes on; all of it is read again, because states under another steering are of no use."""
        if argument.strip():
            wish = asked_steering(argument, self._wish)
            config = self._loaded.transformer.config
            loaded = self._loaded.steered(None if wish is None else wish.steering(config, note))
            self._engine.close()
            self._loaded, self._wish = loaded, wish
            self._run_engine()
        print(f"steering: {self._wish or 'off'}")

    def _mode_text(self) -> str:
        mode = self._transcript.thinking
        reason = ""
        if self._asked_thinking is not mode:
            reason = f" (max needs a context of {MAX_THINKING_CONTEXT}, this is {self._loaded.context_length})"
        return f"thinking: {mode}{reason}"


def _required(word: str, argument: str) -> str:
    if not argument:
        raise UsageError(f"{word}: expected a file, such as {word} notes.txt")
    return argument
