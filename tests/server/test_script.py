"""Script files: what they compile to, and what is said about those that are none."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.gates import PATIENCE_S
from fakes.tokenizer_json import metadata_from_tokenizer_json
from whitedwarf.conversation.events import BackendReason, TextDelta
from whitedwarf.engine.request import FinishReason, GenerateOptions
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.engine.scripted import ScriptedEngine
from whitedwarf.errors import FileFormatError
from whitedwarf.prompt.parse import OutputParser
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server.debug_last import debug_last
from whitedwarf.server.script import ScriptWords, compile_script, read_script

NANO_JSON = Path(__file__).parents[1] / "golden" / "prompt" / "nano_tokenizer.json"
TOKENIZER = Tokenizer.from_metadata(metadata_from_tokenizer_json(NANO_JSON))
WORDS = ScriptWords.of(TOKENIZER)
EOS = TOKENIZER.special_id(SpecialToken.EOS)


def compiled(*lines: dict[str, Any]) -> tuple[ScriptedAnswer, ...]:
    return compile_script([json.dumps(line).encode() for line in lines], WORDS)


def answer_ids(*pieces: Any) -> list[int]:
    (answer,) = compiled({"pieces": list(pieces)})
    return [token for piece in answer.pieces for token in piece]


def parsed_text(ids: list[int], start: ParseStart = ParseStart.CONTENT) -> str:
    """What the parser makes of ids that come one by one."""
    parser = OutputParser(ParseOptions(start=start), TOKENIZER)
    events = [event for token in ids for event in parser.feed_ids([token])] + parser.finish(BackendReason.STOP)
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_a_line_has_all_that_can_be_asked() -> None:
    line = {"pieces": ["Hi", {"special": "</think>"}], "finish": "length", "prefill_s": 2, "delay_ms": 2.5}
    (answer,) = compiled(line)
    assert answer.pieces == (tuple(TOKENIZER.encode("Hi")), (TOKENIZER.special_id(SpecialToken.THINK_CLOSE),))
    assert (answer.ending, answer.stop_id) == (FinishReason.LENGTH, None)
    assert (answer.prefill_s, answer.delay_s) == (2.0, 0.0025)


def test_only_pieces_have_to_be_there() -> None:
    (answer,) = compiled({"pieces": []})
    assert answer == ScriptedAnswer((), FinishReason.STOP, stop_id=EOS)


def test_a_spelt_control_token_is_text() -> None:
    ids = answer_ids("</think>")
    assert TOKENIZER.special_id(SpecialToken.THINK_CLOSE) not in ids
    assert TOKENIZER.decode(ids) == "</think>"


def test_a_control_token_ends_the_thought() -> None:
    ids = answer_ids("hm", {"special": "</think>"}, "Hello")
    assert parsed_text(ids, ParseStart.REASONING) == "Hello"


def test_bytes_may_split_a_character_p20() -> None:
    pieces = ["ok ", {"bytes": "f09f"}, {"bytes": "a6"}, {"bytes": "94"}, {"bytes": "e6"}, {"bytes": "bca2"}]
    assert parsed_text(answer_ids(*pieces)) == "ok 🦔漢"


def test_bytes_that_are_no_character_are_one_replacement_each_p20() -> None:
    assert parsed_text(answer_ids("a", {"bytes": "ff"}, "b", {"bytes": "f09f"})) == "a�b�"


@pytest.mark.parametrize("byte", range(256))
def test_every_byte_has_a_token(byte: int) -> None:
    (token,) = answer_ids({"bytes": f"{byte:02x}"})
    assert TOKENIZER.token_bytes(token) == bytes([byte])


# Without what the parser may take for markup, and blanks that it takes from the ends.
plain = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"], exclude_characters="<>|｜`{}[]"))


@given(st.lists(plain, max_size=6), st.data())
def test_however_it_is_cut_the_parser_gives_the_text_back(texts: list[str], data: st.DataObject) -> None:
    pieces: list[Any] = []
    for text in texts:
        if data.draw(st.booleans(), "as text"):
            pieces.append(text)
            continue
        encoded = text.encode()
        cut = data.draw(st.integers(0, len(encoded)), "cut")
        pieces += [{"bytes": encoded[:cut].hex()}, {"bytes": encoded[cut:].hex()}]
    assert parsed_text(answer_ids(*pieces)) == "".join(texts)


@given(st.lists(st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.binary()), max_size=8))
def test_the_ids_spell_the_bytes_of_all_pieces(parts: list[str | bytes]) -> None:
    ids = answer_ids(*(part if isinstance(part, str) else {"bytes": part.hex()} for part in parts))
    spelt = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    assert b"".join(map(TOKENIZER.token_bytes, ids)) == spelt
    assert not set(ids) & set(WORDS.special_ids.values())


def test_a_file_is_read_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "script.jsonl"
    path.write_bytes(b'{"pieces": ["a"]}\r\n\n  \n{"pieces": ["b"]}')
    assert len(read_script(path, WORDS)) == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"none\.jsonl: the script cannot be read: No such file"):
        read_script(tmp_path / "none.jsonl", WORDS)


@pytest.mark.parametrize("text", [b"", b"\n \n"])
def test_an_empty_script_is_none(text: bytes) -> None:
    with pytest.raises(FileFormatError, match=r'script: expected at least one line, such as \{"pieces"'):
        compile_script(text.splitlines(), WORDS)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("nonsense", "expected a JSON object, got what is no JSON"),
        ("[" * 100_000, "expected a JSON object, got what is no JSON"),
        ("[1]", "expected a JSON object, got [1]"),
        ("{}", 'expected "pieces" to be an array of pieces'),
        ('{"pieces": "a"}', 'got "a"'),
        ('{"pieces": [], "finsh": "stop"}', "expected no other members than pieces, finish, prefill_s, delay_ms, got"),
        ('{"pieces": [], "finish": "error"}', 'expected "finish" to be "stop" or "length", got "error"'),
        ('{"pieces": [], "finish": null}', 'expected "finish" to be "stop" or "length", got null'),
        ('{"pieces": [], "prefill_s": -1}', 'expected "prefill_s" to be a number from 0 to 1000000000, got -1'),
        ('{"pieces": [], "prefill_s": NaN}', 'expected "prefill_s" to be a number from 0'),
        ('{"pieces": [], "delay_ms": true}', 'expected "delay_ms" to be a number from 0 to 1000000000, got true'),
        ('{"pieces": [], "delay_ms": 1' + "0" * 400 + "}", 'expected "delay_ms" to be a number from 0'),
        ('{"pieces": ["a", 1]}', 'piece 2: expected a string, {"special": "…"} or {"bytes": "…"}, got 1'),
        ('{"pieces": [{"special": "a", "bytes": "00"}]}', "piece 1: expected a string"),
        ('{"pieces": [{"special": "<thnk>"}]}', "piece 1: expected a control token such as <｜begin"),
        ('{"pieces": [{"bytes": "f0 9"}]}', 'expected "bytes" as pairs of hexadecimal digits such as "f09f"'),
        ('{"pieces": [{"bytes": "zz"}]}', 'got "zz"'),
        ('{"pieces": ["\\ud800"]}', "piece 1: expected text, got half a surrogate pair"),
    ],
)
def test_a_bad_line_is_named_with_what_was_expected(line: str, fault: str) -> None:
    with pytest.raises(FileFormatError) as raised:
        compile_script([b'{"pieces": []}', b"", line.encode()], WORDS, "test.jsonl")
    assert str(raised.value).startswith("test.jsonl, line 3: ")
    assert fault in str(raised.value)
    assert len(str(raised.value)) < 500


def test_the_last_request_can_be_looked_at() -> None:
    with ScriptedEngine(compiled({"pieces": ["Hi"]}), context_length=1000, vocab_size=TOKENIZER.vocab_size) as engine:
        assert debug_last(engine.last_received, TOKENIZER) == {"number": 0}
        ids = TOKENIZER.encode("Say hi")
        engine.submit(ids, GenerateOptions(max_tokens=9, stop_ids=frozenset({EOS}))).result(PATIENCE_S)
        last = debug_last(engine.last_received, TOKENIZER)
    assert json.loads(json.dumps(last)) == last
    assert (last["number"], last["prompt"], last["prompt_ids"], last["prompt_tokens"]) == (1, "Say hi", ids, len(ids))
    assert (last["options"]["max_tokens"], last["options"]["stop_ids"]) == (9, [EOS])
    assert (last["reused_tokens"], last["processed_tokens"]) == (0, len(ids))
    assert (last["answer"], last["answer_ids"], last["finish"]) == ("Hi", TOKENIZER.encode("Hi"), "stop")
