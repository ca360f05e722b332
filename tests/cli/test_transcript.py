from whitedwarf.cli.oneshot import prompt_ids
from whitedwarf.cli.transcript import Transcript
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer


def test_the_first_turn_is_the_one_shot_prompt(nano_tokenizer: Tokenizer) -> None:
    for thinking in Thinking:
        transcript = Transcript(nano_tokenizer, "Be brief.", thinking)
        assert transcript.prompt("Hi") == prompt_ids(nano_tokenizer, "Hi", "Be brief.", thinking)


def test_each_turn_only_adds_to_the_one_before(nano_tokenizer: Tokenizer) -> None:
    transcript = Transcript(nano_tokenizer, "", Thinking.NONE)
    first = transcript.prompt("Hi")
    answer = tuple(nano_tokenizer.encode("Hello!"))
    transcript.add("Hi", answer)
    second = transcript.prompt("And now?")
    assert second[: len(first) + len(answer)] == [*first, *answer]
    assert nano_tokenizer.decode(second) == (
        "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜></think>Hello!<｜end▁of▁sentence｜>"
        "<｜User｜>And now?<｜Assistant｜></think>"
    )


def test_a_turn_that_was_not_kept_leaves_no_trace(nano_tokenizer: Tokenizer) -> None:
    transcript = Transcript(nano_tokenizer, "S", Thinking.HIGH)
    before = transcript.prompt("x")
    transcript.prompt("forgotten")
    assert transcript.prompt("x") == before


def test_another_mode_changes_the_opening_and_keeps_the_turns(nano_tokenizer: Tokenizer) -> None:
    transcript = Transcript(nano_tokenizer, "", Thinking.NONE)
    transcript.add("Hi", tuple(nano_tokenizer.encode("Hello!")))
    transcript.thinking = Thinking.MAX
    text = nano_tokenizer.decode(transcript.prompt("Why?"))
    assert text.startswith("<｜begin▁of▁sentence｜>Reasoning Effort: Beyond maximum")
    assert "<｜User｜>Hi<｜Assistant｜></think>Hello!<｜end▁of▁sentence｜>" in text
    assert text.endswith("<｜User｜>Why?<｜Assistant｜><think>")


def test_a_prompt_that_begins_with_the_marker_is_a_rendered_chat(nano_tokenizer: Tokenizer) -> None:
    text = "<｜begin▁of▁sentence｜><｜User｜>Hi<｜Assistant｜></think>"
    ids = prompt_ids(nano_tokenizer, text, "ignored", Thinking.MAX)
    assert ids == nano_tokenizer.encode_rendered(text)
    assert len(ids) == 4 + len(nano_tokenizer.encode("Hi"))
    inside = prompt_ids(nano_tokenizer, f" {text}", "", Thinking.NONE)
    assert inside.count(nano_tokenizer.special_id(SpecialToken.BOS)) == 1
