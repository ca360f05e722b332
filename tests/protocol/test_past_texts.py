"""What was remembered changes no prompt's text but for the model's own words of calls, whatever a client sends back."""

import json
import random
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.scripted_server import TOKENIZER, calls
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.guide import Guide
from whitedwarf.engine.request import Event, Finished, FinishReason, GenerateOptions, Prefilled, Token
from whitedwarf.errors import WhitedwarfError
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Ids
from whitedwarf.protocol.dialects import CHAT
from whitedwarf.protocol.policy import local
from whitedwarf.reply import Prepared
from whitedwarf.respond import Road

BAR = SpecialToken.DSML.value
MARKS = re.compile(f"({re.escape(BAR)}|</think>)")
PARAMETERS = {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in "fg"]
SAID = ["", "a", "é🦔", "<｜User｜>", "\0", "call_1", "<｜end▁of▁sentence｜>", "<|ref|>", " x", "<tool_result>"]
SENT = [*SAID, "\n", BAR, "</think>", f"<{BAR}tool_calls>", f"</{BAR}parameter>"]
ARGUMENTS = ["{}", '{"a":"x"}', "none", '{"n":true}', '{"n":1.0}', '{"a":"<｜User｜>"}', "[]", ""]
BLOCK = re.compile(f"\\s*<{BAR}tool_calls>.*?</{BAR}tool_calls>", re.DOTALL)
BLOCK_OPENING = re.compile(f"\\s*<{BAR}tool_calls>\\n")
THOUGHT = re.compile("<think>.*?</think>", re.DOTALL)


class Idle:
    """An engine that is never asked."""

    context_length = 100_000

    def submit(self, ids: Ids, options: GenerateOptions, /, *, guide: Guide | None = None) -> Generation:
        return Generation()


def drawn(text: str, dice: random.Random) -> list[int]:
    """Ids of the text, its words split as no tokenizer would."""
    ids: list[int] = []
    for part in MARKS.split(text):
        if MARKS.fullmatch(part):
            ids.append(TOKENIZER.special_id(SpecialToken(part)))
            continue
        while part:
            size = dice.randint(1, len(part))
            ids += TOKENIZER.encode(part[:size])
            part = part[size:]
    return ids


def answer(dice: random.Random, *, thinks: bool, has_tools: bool) -> str:
    text = f"{dice.choice(SAID)}</think>" if thinks else ""
    text += dice.choice(SAID)
    if has_tools and dice.random() < 0.7:
        made = [calls(dice.choice("fg"), a=dice.choice(SAID), n=1) for _ in range(dice.randint(1, 3))]
        text += made[0].removesuffix(f"</{BAR}tool_calls>")
        text += "".join(BLOCK_OPENING.sub("", one).removesuffix(f"</{BAR}tool_calls>") for one in made[1:])
        text += f"</{BAR}tool_calls>"
    return text


def meddle(messages: list[Any], known: list[str], dice: random.Random) -> None:
    """What a hostile or an unlucky client does to a history."""
    said = [message for message in messages if message["role"] == "assistant"]
    called = [message for message in said if message.get("tool_calls")]
    results = [message for message in messages if message["role"] == "tool"]
    deed = dice.randrange(10)
    if deed == 0 and said:
        dice.choice(said)["content"] = dice.choice(SENT)
    elif deed == 1 and said:
        dice.choice(said)["reasoning_content"] = dice.choice([*SENT, None])
    elif deed == 2 and called:
        dice.shuffle(dice.choice(called)["tool_calls"])
    elif deed == 3 and called:
        ids = [*known, "", "x" * 1000, "a\nb", BAR, "\0"]
        dice.choice(dice.choice(called)["tool_calls"])["id"] = dice.choice(ids)
    elif deed == 4 and called:
        dice.choice(dice.choice(called)["tool_calls"])["function"]["name"] = dice.choice("fgh")
    elif deed == 5 and called:
        dice.choice(dice.choice(called)["tool_calls"])["function"]["arguments"] = dice.choice(ARGUMENTS)
    elif deed == 6 and called:
        message = dice.choice(called)
        message["tool_calls"] = dice.choice([message["tool_calls"] * 2, message["tool_calls"][:1]])
    elif deed == 7 and results:
        messages.remove(dice.choice(results))
    elif deed == 8:
        dice.shuffle(messages)
    elif deed == 9 and len(called) > 1:
        called[0]["tool_calls"], called[1]["tool_calls"] = called[1]["tool_calls"], called[0]["tool_calls"]


def prepared(road: Road, body: dict[str, Any]) -> Prepared | None:
    try:
        return road.prepare(json.dumps(body).encode(), CHAT)
    except WhitedwarfError:
        return None


def check_text(mine: Prepared, plain: Prepared) -> None:
    """Both read alike, and have the same control tokens."""
    text, canonical = (TOKENIZER.decode(ids.tolist()) for ids in (mine.ids, mine.prompt.canonical))
    assert text == canonical
    expected = TOKENIZER.decode(plain.ids.tolist())
    if mine.recalled.from_memory:
        text, expected = (BLOCK.sub("", THOUGHT.sub("</think>", one)) for one in (text, expected))
    else:
        special = set(TOKENIZER.vocabulary.special_ids.values())
        assert [one for one in mine.ids.tolist() if one in special] == [
            one for one in plain.ids.tolist() if one in special
        ]
    assert text == expected


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_prompt_reads_as_without_a_memory(seed: int) -> None:
    dice = random.Random(seed)
    policy = local(ModelVersion.V4)
    road, messages, known = Road(Idle(), TOKENIZER, policy), list[Any](), list[str]()
    for _ in range(dice.randint(2, 5)):
        messages.append({"role": "user", "content": f"Go.{dice.choice(SENT)}"})
        for _ in range(dice.choice([0, 0, 1, 2])):
            meddle(messages, known, dice)
        has_tools, thinks = dice.random() < 0.8, dice.random() < 0.5
        body: dict[str, Any] = {"model": dice.choice("mn"), "thinking": {"type": "enabled" if thinks else "disabled"}}
        body |= {"messages": messages, **({"tools": TOOLS} if has_tools else {})}
        mine, plain = prepared(road, body), prepared(Road(Idle(), TOKENIZER, policy), body)
        if mine is None or plain is None:
            assert plain is None, "what is refused with a memory is refused without one"
            return
        check_text(mine, plain)
        reply = road.start(mine)
        ids = drawn(answer(dice, thinks=thinks, has_tools=has_tools), dice)
        events: list[Event] = [
            Prefilled(len(mine.ids), len(mine.ids)),
            *map(Token, ids),
            Finished(FinishReason.STOP, 1, 1, 0),
        ]
        reply.collect([*reply.begin(), *reply.take(events)])
        message = reply.body()["choices"][0]["message"]
        made = [call["id"] for call in message.get("tool_calls") or ()]
        known += made
        messages += [message, *({"role": "tool", "tool_call_id": one, "content": dice.choice(SENT)} for one in made)]
