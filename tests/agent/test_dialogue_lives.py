"""Thousands of lives of a conversation: whatever is said, drawn, refused and interrupted, nothing old changes."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent.scripted_agent import DIALECTS, Ear, NoChecks, segments_of
from whitedwarf.agent.dialogue import Call, Result
from whitedwarf.agent.events import AnswerEnd, Drawn, Reading
from whitedwarf.agent.local_dialogue import LocalDialogue
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.agent.turns import Turns
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.conversation.tools import ToolCall, ToolDefinition
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.engine.scripted import ScriptedEngine
from whitedwarf.errors import Cancelled
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.prompt import dsml
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.segments import Segment, Text
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model

with open_gguf(bundled_model()) as _gguf:
    TOKENIZER = Tokenizer.from_metadata(_gguf.metadata)
EOS = TOKENIZER.special_id(SpecialToken.EOS)
CONTEXT = 30_000
TEXTS = st.text("ab \n<>é1", max_size=12) | st.sampled_from(["</think>", "<｜User｜>", "<｜DSML｜tool_calls>"])
TOOL = ToolDefinition("f", "Does.", {"type": "object"})
CUT = st.integers(0, 30)


class OneByOne(ScriptedEngine):
    """A scripted engine whose next answer is set before it is asked."""

    def __init__(self) -> None:
        super().__init__([ScriptedAnswer(())], context_length=CONTEXT, vocab_size=TOKENIZER.vocab_size)

    def will_say(self, ids: list[int]) -> None:
        self._answers = (ScriptedAnswer(tuple((token,) for token in ids), stop_id=EOS, delay_s=0.0),)


class Life(RuleBasedStateMachine):
    """What the model read and drew so far is `known`; only shortening may change it."""

    @initialize(version=st.sampled_from(ModelVersion), thinking=st.sampled_from([Thinking.NONE, Thinking.HIGH]))
    def begin(self, version: ModelVersion, thinking: Thinking) -> None:
        self.version = version
        self.engine = OneByOne()
        self.dialogue = LocalDialogue(self.engine, TOKENIZER, version, AgentSettings(thinking=thinking))
        self.dialogue.begin("You help.", [TOOL], "")
        self.opening = self.dialogue.transcript.ids.tolist()
        self.known: list[int] = []
        self.has_words = False

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            self.engine.close()

    def drawn(self, thought: str, text: str, values: list[str], cut: int | None) -> list[int]:
        """The ids of an answer, perhaps without its end."""
        calls = [ToolCall("", "f", dsml_json(value)) for value in values]
        pieces: list[str | SpecialToken | Segment] = []
        if self.dialogue.is_thinking:
            pieces += [thought, SpecialToken.THINK_CLOSE]
        pieces += [Text(text), *(dsml.calls_block(calls, DIALECTS[self.version]) if calls else ())]
        ids = TOKENIZER.encode_segments(segments_of(pieces))
        return ids if cut is None else ids[: max(0, len(ids) - cut)]

    @rule(text=TEXTS)
    def say(self, text: str) -> None:
        self.dialogue.say(text or "x")
        self.has_words = True

    @rule(text=TEXTS)
    def instruct(self, text: str) -> None:
        self.dialogue.instruct(text or "x")

    @rule()
    def remind(self) -> None:
        self.dialogue.remind("Again:")

    @rule(texts=st.lists(TEXTS, min_size=1, max_size=3), note=TEXTS)
    def report(self, texts: list[str], note: str) -> None:
        self.dialogue.report([Result(Call("f", {}), text) for text in texts], note)

    @rule(is_thinking=st.booleans())
    def think(self, is_thinking: bool) -> None:
        self.dialogue.is_thinking = is_thinking

    @rule(
        thought=TEXTS,
        text=TEXTS,
        values=st.lists(TEXTS, max_size=2),
        cut=st.none() | CUT,
        limit=st.none() | CUT,
        refused=st.booleans(),
        interrupted_at=st.none() | CUT,
    )
    def answer(
        self,
        thought: str,
        text: str,
        values: list[str],
        cut: int | None,
        limit: int | None,
        refused: bool,
        interrupted_at: int | None,
    ) -> None:
        self.engine.will_say(self.drawn(thought, text, values, cut))
        said = self.dialogue.ids.tolist()

        def hear(event: object) -> None:
            is_drawn = isinstance(event, Drawn) and event.tokens == interrupted_at
            if is_drawn or (isinstance(event, Reading) and interrupted_at == 0):
                self.dialogue.interrupt()

        checks = NoChecks(refused={"value": "no"} if refused else {})
        answer = self.dialogue.answer(Ear(on=hear), checks, 1 + (1000 if limit is None else limit))
        received = self.engine.received[-1]
        ids = self.dialogue.transcript.ids.tolist()
        assert list(received.ids)[: len(said)] == said
        whole = [*received.ids, *received.generated_ids]
        if received.generated_ids or answer.end is not AnswerEnd.INTERRUPTED:
            assert ids[: len(whole)] == whole  # as it was drawn
            assert ids[-1] == EOS
            assert len(ids) - len(whole) <= 2
        assert answer.tokens == len(received.generated_ids)
        assert (answer.end is AnswerEnd.CALLS) <= bool(answer.calls)
        self.known = ids

    @precondition(lambda self: self.has_words)
    @rule(is_interrupted=st.booleans())
    def summarise(self, is_interrupted: bool) -> None:
        self.engine.will_say(TOKENIZER.encode("a b c d e"))
        ear = Ear(on=lambda event: self.dialogue.interrupt() if is_interrupted else None)
        before = self.dialogue.ids.tolist()
        try:
            assert self.dialogue.summarise("Sum up.", 50, ear) == "a b c d e"
        except Cancelled:
            assert is_interrupted
        assert self.dialogue.ids.tolist() == before

    @rule(keep=st.integers(0, 400))
    def shorten(self, keep: int) -> None:
        before = self.dialogue.ids.tolist()
        self.dialogue.shorten("[Summary.]", keep, Ear())
        ids = self.dialogue.ids.tolist()
        summary = TOKENIZER.encode_segments(Turns(self.version).instruction("[Summary.]"))
        tail = ids[len(self.opening) + len(summary) :]
        assert ids[: len(self.opening) + len(summary)] == self.opening + summary
        assert not tail or (before[-len(tail) :] == tail and len(tail) <= keep)
        self.known = ids

    @invariant()
    def nothing_old_changes(self) -> None:
        if hasattr(self, "dialogue"):
            ids = self.dialogue.ids.tolist()
            assert ids[: len(self.opening)] == self.opening
            assert ids[: len(self.known)] == self.known
            assert self.dialogue.used_tokens == len(ids)


def dsml_json(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{{"value": "{escaped}"}}'


Life.TestCase.settings = settings(max_examples=60, stateful_step_count=25)
TestLife = Life.TestCase
