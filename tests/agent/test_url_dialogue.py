"""The agent's conversation with any Chat Completions server: what is asked, read, kept, refused and interrupted."""

import json
import socket
import threading
import time

import pytest

from agent.url_talks import Checks, call, reads, talk, together
from fakes.chat_server import Handler, chat_server, status, stream
from fakes.scripted_server import calls, says, serving
from whitedwarf.agent.dialogue import Call, Result
from whitedwarf.agent.events import AnswerEnd, Compacting, Drawn, Notice, ParameterText, Reading
from whitedwarf.conversation.events import ArgumentsDelta, ReasoningDelta, TextDelta, ToolCallFinished, ToolCallStarted
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.engine.request import SamplingOptions
from whitedwarf.errors import Cancelled, ContextOverflowError, EndpointError


def test_an_answer_is_told_as_it_comes_and_kept() -> None:
    with chat_server(stream({"reasoning_content": "Hm."}, {"content": "Hel"}, {"content": "lo"})) as server:
        here = talk(server.url)
        answer = here.answer()
        assert (answer.end, answer.text, answer.reasoning, answer.tokens) == (AnswerEnd.DONE, "Hello", "Hm.", 5)
        told = here.of(ReasoningDelta, TextDelta)
        assert told == [ReasoningDelta("Hm."), TextDelta("Hel"), TextDelta("lo")]
        assert [event.tokens for event in here.of(Drawn)] == [1, 2, 3]
        assert len(here.of(Reading)) == 1
        here.dialogue.say("And now?")
        here.answer()
        assert server.received[1]["messages"] == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello", "reasoning_content": "Hm."},
            {"role": "user", "content": "And now?"},
        ]


def test_the_request_has_the_tools_the_sampling_and_the_thinking() -> None:
    with chat_server(stream({"content": "x"})) as server:
        here = talk(server.url, sampling=SamplingOptions(0.5, 0.9, 0.02, seed=7), thinking=Thinking.MAX)
        here.answer(77)
        here.dialogue.is_thinking = False
        here.answer()
        first, second = server.received
        here.dialogue.thinking = Thinking.HIGH
        here.answer()
        assert server.received[2]["reasoning_effort"] == "high"
        assert first["tools"][0]["function"]["name"] == "read"
        assert (first["max_tokens"], first["temperature"], first["top_p"], first["min_p"]) == (77, 0.5, 0.9, 0.02)
        assert (first["seed"], first["thinking"], first["reasoning_effort"]) == (7, {"type": "enabled"}, "max")
        assert second["thinking"] == {"type": "disabled"}
        assert "reasoning_effort" not in second


def test_calls_are_told_while_they_are_written_and_their_results_go_back() -> None:
    with chat_server(stream({"content": "Look."}, *reads("a.py"), finish="tool_calls"), stream({"content": "Ok"})) as s:
        here = talk(s.url)
        answer = here.answer()
        assert answer.end is AnswerEnd.CALLS
        assert answer.calls == (Call("read", {"path": "a.py"}, "c1"),)
        text = json.dumps({"path": "a.py"})
        kinds = (ToolCallStarted, ArgumentsDelta, ParameterText, ToolCallFinished)
        assert here.of(*kinds)[0] == ToolCallStarted(0, "read")
        assert here.of(*kinds)[-1] == ToolCallFinished(0, "read", text)
        assert "".join(event.text for event in here.of(ParameterText)) == "a.py"
        assert here.checks.seen == [("read", "path", {"path": "a.py"})]
        here.dialogue.report([Result(answer.calls[0], "1 x = 1")])
        here.answer()
        assert s.received[1]["messages"][2:] == [
            {
                "role": "assistant",
                "content": "Look.",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": text}}],
            },
            {"role": "tool", "tool_call_id": "c1", "name": "read", "content": "1 x = 1"},
        ]


@pytest.mark.parametrize(
    "deltas",
    [
        [call(0, "read", '{"path": "a"}', "x"), call(1, "read", '{"path": "b"}', "y")],
        [call(0, "read", '{"path": "a"}', "x"), call(0, "read", '{"path": "b"}', "y")],  # one place for all
        [call(0, "read", {"path": "a"}), call(1, "read", {"path": "b"})],  # no ids, objects
        [together(call(0, "read", '{"path": "a"}', "x"), call(1, "read", '{"path": "b"}', "x"))],
    ],
    ids=["usual", "same-place", "no-ids", "same-id"],
)
def test_parallel_calls_are_told_apart_however_a_server_numbers_them(deltas: list[dict[str, object]]) -> None:
    with chat_server(stream(*deltas, finish="tool_calls")) as server:
        here = talk(server.url)
        found = here.answer().calls
        assert [one.arguments for one in found] == [{"path": "a"}, {"path": "b"}]
        assert len({one.id for one in found}) == 2
        assert [event.index for event in here.of(ToolCallFinished)] == [0, 1]
        here.dialogue.report([Result(found[0], "A"), Result(found[1], "B")])
        here.answer()
        results = [message for message in server.received[1]["messages"] if message["role"] == "tool"]
        assert [(one["tool_call_id"], one["content"]) for one in results] == [(found[0].id, "A"), (found[1].id, "B")]


def test_a_call_that_a_check_refuses_ends_the_request_at_once() -> None:
    over = threading.Event()

    def endless(handler: Handler) -> None:
        stream(*reads("gone.py"), finish=None)(handler)
        try:
            while not over.is_set():
                handler.wfile.write(b": waiting\n\n")
                over.wait(0.02)
        except OSError:
            over.set()  # the client has left

    with chat_server(endless, stream({"content": "Ah"})) as server:
        here = talk(server.url)
        here.checks = Checks(refused="gone.py")
        answer = here.answer()
        assert over.wait(30)
        assert (answer.end, answer.fault, answer.calls) == (AnswerEnd.REFUSED, "there is no gone.py", ())
        here.dialogue.report((), "Tool error: there is no gone.py")
        here.answer()
        assistant, result = server.received[1]["messages"][2:]
        assert assistant["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path": "gone.py"}'}
        assert result["content"] == "Tool error: there is no gone.py"


def test_a_call_that_was_whole_runs_although_the_next_one_is_refused() -> None:
    good, bad = call(0, "read", '{"path": "a"}', "x"), call(1, "read", '{"path": "gone.py"}', "y")
    with chat_server(stream(good, bad, finish="tool_calls"), stream({"content": "Ok"})) as server:
        here = talk(server.url)
        here.checks = Checks(refused="gone.py")
        answer = here.answer()
        assert (answer.end, answer.calls) == (AnswerEnd.REFUSED, (Call("read", {"path": "a"}, "x"),))
        here.dialogue.report([Result(answer.calls[0], "A")], answer.fault)
        here.answer()
        assert [message["content"] for message in server.received[1]["messages"][3:]] == ["A", "there is no gone.py"]


@pytest.mark.parametrize("arguments", ['{"path": "a', '["a"]', "nonsense", '{"path": NaN}'])
def test_arguments_that_are_no_object_are_a_fault_that_the_model_is_told(arguments: str) -> None:
    with chat_server(stream(call(0, "read", arguments, "c1"), finish="tool_calls")) as server:
        here = talk(server.url)
        answer = here.answer()
        assert answer.end is AnswerEnd.FAULTY
        assert "read" in answer.fault
        assert "no JSON object" in answer.fault
        here.dialogue.report((), answer.fault)
        here.answer()
        sent = server.received[1]["messages"]
        json.loads(sent[2]["tool_calls"][0]["function"]["arguments"])  # servers parse them
        assert sent[3]["role"] == "tool"


def test_an_answer_at_its_limit_says_so() -> None:
    with chat_server(stream({"content": "and so"}, finish="length")) as server:
        assert talk(server.url).answer().end is AnswerEnd.LENGTH
    with chat_server(stream(call(0, "read", '{"pa', "c1"), finish="length")) as server:
        answer = talk(server.url).answer()
        assert answer.end is AnswerEnd.FAULTY
        assert "cut off" in answer.fault


@pytest.mark.parametrize("phase", ["connecting", "reading", "answering", "pausing"])
def test_an_interrupt_ends_an_answer_at_once_in_every_phase(phase: str) -> None:
    holding, arrived = threading.Event(), threading.Event()

    def silent(handler: Handler) -> None:
        arrived.set()
        holding.wait(30)

    def talking(handler: Handler) -> None:
        arrived.set()
        stream({"content": "some"}, {"content": "more"}, wait=holding)(handler)

    def busy(handler: Handler) -> None:
        arrived.set()
        status(429, "later", Retry_After="50")(handler)

    steps = {"connecting": silent, "reading": silent, "answering": talking, "pausing": busy}
    with chat_server(steps[phase]) as server, socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}" if phase == "connecting" else server.url
        here = talk(url)
        timer = threading.Timer(0.3, here.dialogue.interrupt)
        timer.start()
        began_s = time.monotonic()
        answer = here.answer()
        assert time.monotonic() - began_s < 30
        assert answer.end is AnswerEnd.INTERRUPTED
        assert answer.text == ("some" if phase == "answering" else "")
        holding.set()
        timer.join()
    here.dialogue.interrupt()  # nothing is in hand: nothing happens
    with chat_server(stream({"content": "again"})) as server:
        other = talk(server.url)
        other.dialogue.interrupt()
        assert other.answer().text == "again"


def test_an_interrupted_call_never_ran_and_the_conversation_is_whole() -> None:
    holding = threading.Event()
    with chat_server(stream(*reads("a.py"), wait=holding), stream({"content": "Ok"})) as server:
        here = talk(server.url)
        threading.Timer(0.3, here.dialogue.interrupt).start()
        assert here.answer().end is AnswerEnd.INTERRUPTED
        holding.set()
        here.dialogue.say("Stop that.")
        here.answer()
        roles = [message["role"] for message in server.received[1]["messages"]]
        assert roles == ["system", "user", "assistant", "tool", "user"]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (status(401, {"error": {"message": "bad key sk-secret-secret"}}), "--api-key-env"),
        (status(404, {"error": {"message": "no such model"}}), "--model-name"),
        (status(400, {"error": {"message": "this model does not support tools"}}), "takes tools"),
        (status(302, "", Location="http://elsewhere/"), "points to http://elsewhere/"),
        (status(418, "teapot"), "answers 418: teapot"),
        (stream({"content": "half"}, finish=None), "broke off"),
    ],
)
def test_what_will_not_pass_is_told_at_once(step: object, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-secret-secret")
    with chat_server(step) as server:  # type: ignore[arg-type]
        here = talk(server.url, key="SOME_KEY")
        with pytest.raises(EndpointError) as caught:
            here.answer()
        assert words in str(caught.value)
        assert "sk-secret-secret" not in str(caught.value)
        assert len(server.received) == 1
        assert server.keys == ["Bearer sk-secret-secret"]


def test_what_may_pass_is_tried_again_and_told() -> None:
    steps = [status(429, "busy"), status(503, "starting"), stream({"content": "Hi"})]
    with chat_server(*steps) as server:
        here = talk(server.url)
        assert here.answer().text == "Hi"
        assert len(here.of(Notice)) == 2
    with chat_server(status(500, "broken")) as server:
        here = talk(server.url)
        with pytest.raises(EndpointError, match="5 attempts"):
            here.answer()
        assert len(server.received) == 5


def test_a_stream_that_is_cut_keeps_what_came_and_is_not_asked_again() -> None:
    with chat_server(stream({"content": "half of "}, finish=None), stream({"content": "Ok"})) as server:
        here = talk(server.url)
        with pytest.raises(EndpointError, match="broke off"):
            here.answer()
        here.dialogue.say("Go on.")
        here.answer()
        assert [message["content"] for message in server.received[1]["messages"][1:]] == ["Hi", "half of ", "Go on."]


def test_members_that_a_server_does_not_know_are_left_out() -> None:
    steps = [
        status(400, {"error": {"message": "Unrecognized request argument supplied: min_p"}}),
        status(422, {"error": {"message": "thinking: extra fields not permitted, reasoning_effort: too"}}),
        stream({"content": "Hi"}),
    ]
    with chat_server(*steps) as server:
        here = talk(server.url)
        assert here.answer().text == "Hi"
        here.answer()
        assert not {"min_p", "thinking", "reasoning_effort"} & server.received[3].keys()


def test_a_prompt_that_is_too_long_is_told_as_such() -> None:
    step = status(400, {"error": {"message": "This model's maximum context length is 10 tokens"}})
    with chat_server(step) as server, pytest.raises(ContextOverflowError, match="--ctx"):
        talk(server.url).answer()


def test_words_that_are_no_text_are_sent_all_the_same() -> None:
    with chat_server(stream({"content": "Hm?"})) as server:
        assert talk(server.url, "odd \udcff name").answer().text == "Hm?"
        assert server.received[0]["messages"][1]["content"] == "odd ? name"


def test_nobody_there_is_told_with_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(EndpointError, match="is the server running"):
        talk(url).answer()


@pytest.mark.parametrize(
    "junk",
    [
        b"data: {]\n\n",
        b"data: 5\n\n",
        b'data: {"error": {"message": "CUDA"}}\n\n',
        b"\xff\xfe\n",
        b'data: {"choices": 7}\n\n',
    ],
)
def test_garbage_is_an_error_never_a_crash(junk: bytes) -> None:
    def garbage(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        handler.wfile.write(junk)

    with chat_server(garbage) as server, pytest.raises(EndpointError):
        talk(server.url).answer()


def test_tokens_are_the_servers_and_estimates_between() -> None:
    with chat_server(stream({"content": "Hi"})) as server:
        here = talk(server.url)
        guess = here.dialogue.used_tokens
        assert guess > 0
        here.answer()
        assert here.dialogue.used_tokens == 16  # 11 and 5, as the server says
        here.dialogue.say("x" * 1000)
        assert here.dialogue.used_tokens > 16
        assert here.dialogue.count("x" * 1000) < 1000


def test_a_summary_leaves_no_trace_and_shortening_keeps_the_end() -> None:
    with chat_server(stream({"content": "Hi"}), stream({"content": " All "}, {"content": "of it "})) as server:
        here = talk(server.url, "first " * 100)
        here.answer()
        here.dialogue.say("second")
        before = here.dialogue.used_tokens
        assert here.dialogue.summarise("Sum up.", 500, here.told.append) == "All of it"
        assert here.dialogue.used_tokens == before
        asked = server.received[1]
        assert (asked["tool_choice"], asked["temperature"], asked["thinking"]) == ("none", 0, {"type": "disabled"})
        assert asked["messages"][-1]["content"].endswith("Sum up.")
        assert here.of(Compacting)
        here.dialogue.shorten("All of it", 4, here.told.append)
        here.answer()
        system, *rest = server.received[2]["messages"]
        assert system["content"].startswith("Be brief.")
        assert "All of it" in system["content"]
        assert rest == [{"role": "user", "content": "second"}]
        here.dialogue.shorten("Still all", 0, here.told.append)
        here.dialogue.say("third")
        here.answer()
        assert "All of it" not in server.received[3]["messages"][0]["content"]


def test_an_interrupted_summary_is_none() -> None:
    holding = threading.Event()
    with chat_server(stream({"content": "a"}, {"content": "b"}, wait=holding)) as server:
        here = talk(server.url)
        threading.Timer(0.3, here.dialogue.interrupt).start()
        with pytest.raises(Cancelled):
            here.dialogue.summarise("Sum up.", 10, here.told.append)
        holding.set()


def test_notes_of_the_program_never_make_a_second_system_message() -> None:
    with chat_server(stream({"content": "Hi"})) as server:
        here = talk(server.url)
        here.dialogue.begin("Be brief.", [], "Speak Latin.")
        here.dialogue.instruct("It is Monday.")
        here.dialogue.say("Hi")
        here.answer()
        here.dialogue.instruct("Mind the tools.")
        here.dialogue.say("More")
        here.answer()
        sent = server.received[1]["messages"]
        assert sent[0]["content"] == "Be brief.\n\nSpeak Latin.\n\nIt is Monday."
        assert [message["role"] for message in sent] == ["system", "user", "assistant", "user"]
        assert "Mind the tools." in sent[3]["content"]
        assert "tools" not in server.received[0]


def test_our_own_server_is_understood() -> None:
    lines = [
        says("I look.</think>Reading." + calls("read", path="a.py")),
        says("Fine.</think>It is empty."),
    ]
    with serving(*lines) as served:
        here = talk(served.url)
        answer = here.answer()
        assert (answer.end, answer.reasoning, answer.text.strip()) == (AnswerEnd.CALLS, "I look.", "Reading.")
        assert answer.calls[0].arguments == {"path": "a.py"}
        assert here.checks.seen == [("read", "path", {"path": "a.py"})]
        here.dialogue.report([Result(answer.calls[0], "(empty)")])
        assert here.answer().text == "It is empty."
        assert here.dialogue.used_tokens > 20
