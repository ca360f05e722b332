"""What nano is taught: every kind of conversation renders, its answers parse back, and nothing evaluated is trained."""

import json
from random import Random

import numpy as np
import pytest

pytest.importorskip("deepseek_recipe")

from nano.curriculum.arithmetic import addition_steps, arithmetic, subtraction_steps
from nano.curriculum.conversation import Conversation
from nano.curriculum.drills import recital
from nano.curriculum.facts import ALL, HELD_OUT, TRAINED, fact
from nano.curriculum.mixture import DOCUMENTS, SHARES
from nano.curriculum.rendering import END, render
from nano.curriculum.retrieval import retrieval_session
from nano.curriculum.tool_sessions import tool_session, tool_turn
from nano.curriculum.tools import toolset
from nano.documents import Encoder
from nano.held_out import held_out_set
from nano.places import EVALUATION, TOKENIZER
from prompt.streams import parse_text
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart

KINDS = sorted(DOCUMENTS)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(TOKENIZER / "tokenizer.json")


def conversations(kind: str, count: int, seed: int = 1) -> list[Conversation]:
    rng = Random(seed)
    return [DOCUMENTS[kind](rng, 12.0) for _ in range(count)]


def test_every_kind_has_a_share() -> None:
    assert set(SHARES) == {*DOCUMENTS, "recital"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_fixes_what_is_made(kind: str) -> None:
    first, second = ([render(it) for it in conversations(kind, 3, seed=7)] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_taught_parses_back_to_what_was_meant(kind: str) -> None:
    for conversation in conversations(kind, 25):
        if conversation.is_v41:
            continue  # another dialect of calls than the one this parser is told to expect
        _, text = render(conversation)
        start = ParseStart.REASONING if conversation.is_thinking else ParseStart.CONTENT
        answer = parse_text([text.removesuffix(END)], ParseOptions(start=start))
        meant = conversation.answer
        assert not answer.repairs
        assert answer.text.strip() == meant.content.strip()
        found = [(name, json.loads(arguments)) for name, arguments in answer.finished]
        assert found == [(call.name, call.arguments) for call in meant.calls]


@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_of_a_conversation_is_trained(kind: str, encoder: Encoder) -> None:
    for conversation in conversations(kind, 10):
        document = encoder.document(conversation)
        assert len(document.ids) == len(document.trained)
        ends = sum(trained and token == encoder.end for token, trained in zip(*vars_of(document), strict=True))
        assert ends == sum(message.role == "assistant" for message in conversation.messages)
        assert not document.trained[0]


def vars_of(document) -> tuple[list[int], list[bool]]:
    return document.ids, document.trained


def test_calls_only_name_tools_and_parameters_on_offer() -> None:
    rng = Random(3)
    for _ in range(40):
        conversation = tool_session(rng, 6, rng.randint(1, 8))
        offered = {tool["name"]: tool["parameters"]["properties"] for tool in conversation.tools}
        for message in conversation.messages:
            for call in message.calls:
                assert set(call.arguments) <= set(offered[call.name])


def test_no_two_tools_of_a_set_share_a_name() -> None:
    rng = Random(4)
    for _ in range(50):
        tools = toolset(rng, 8, renames=True)
        assert len({tool.name for tool in tools}) == 8
        for tool in tools:
            assert len({parameter.name for parameter in tool.parameters}) == len(tool.parameters)


def test_a_result_follows_every_call_of_a_session() -> None:
    rng = Random(5)
    for _ in range(20):
        messages = tool_session(rng, 5, 3).messages
        for place, message in enumerate(messages[:-1]):
            for offset in range(len(message.calls)):
                assert messages[place + 1 + offset].role == "tool"


def test_answers_of_a_retrieval_session_stand_in_its_text() -> None:
    rng = Random(6)
    for _ in range(20):
        conversation = retrieval_session(rng, 20, 6, 8)
        text = " ".join(message.content for message in conversation.messages[:2]).replace("\n", " ").lower()
        for message in conversation.messages:
            if message.role == "assistant":
                for line in message.content.lower().split("\n"):
                    assert line in text


def test_a_recital_trains_the_values_alone(encoder: Encoder) -> None:
    rng = Random(8)
    for _ in range(20):
        drill = recital(rng, 20)
        document = encoder.recital(drill)
        trained = "".join(encoder.text([i]) for i, t in zip(document.ids, document.trained, strict=True) if t)
        meant = "".join(drill.answer[start:end] for start, end in drill.spans)
        assert trained.replace(" ", "") == meant.replace(" ", "")


def test_held_out_wordings_are_never_drawn() -> None:
    assert len(HELD_OUT) > 50
    assert {*TRAINED, *HELD_OUT} == set(ALL)
    rng = Random(9)
    held_out = {item.question for item in HELD_OUT}
    assert not any(fact(rng).question in held_out for _ in range(3000))


def test_sums_and_their_steps_are_right() -> None:
    rng = Random(10)
    for _ in range(300):
        exchange = arithmetic(rng)
        left, operation, right, _, result = exchange.answer.split()
        expected = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[operation](int(left), int(right))
        assert int(result) == expected
    assert addition_steps(87, 76) == "7+6=13, 8+7+1=16."
    assert subtraction_steps(52, 17) == "2-7=5 borrow, 5-1-1=3."


def test_a_document_that_answers_an_evaluation_prompt_is_known(encoder: Encoder) -> None:
    rng = Random(11)
    conversation = tool_turn(rng, "call")
    document = encoder.document(conversation)
    prompt = encoder.ids(render(conversation)[0])
    assert document.answers_one_of({len(prompt): {tuple(prompt)}})
    assert not document.answers_one_of({len(prompt): {(*prompt[:-1], prompt[-1] + 1)}})
    assert not document.answers_one_of({len(prompt) - 1: {tuple(prompt[:-1])}})


def test_a_held_out_set_has_the_families_of_the_frozen_one_and_none_of_its_rows() -> None:
    made = held_out_set(2, seed=3)
    with np.load(EVALUATION) as golden:
        frozen = {golden[f"{name}/prompt"].tobytes() for name in golden["names"]}
        assert set(made["families"]) == set(golden["families"])
    assert len(made["names"]) == 2 * len(set(made["families"]))
    assert not any(made[f"{name}/prompt"].tobytes() in frozen for name in made["names"])
