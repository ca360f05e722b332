"""What the supervisor makes of a start: how long it waits, what an end means, what it tells people. All pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.supervisor import start_failure
from whitedwarf.supervisor.loading_text import loading_text, with_share
from whitedwarf.supervisor.patience import MOST_TIMES, Patience


class Time:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def over_after(said_at_s: list[int], *, timeout_s: float, worked: bool = False) -> int:
    """The second in which nobody waits any longer, where the child gets on in these seconds."""
    clock = Time()
    patience = Patience(timeout_s, clock)
    done = 0
    for second in range(10_000):
        clock.now_s = 1000.0 + second
        done += second in said_at_s
        patience.saw(0 if worked else done, done * (4 << 20) if worked else 0)
        if patience.is_over:
            return second
    raise AssertionError("for ever")


def test_a_silent_start_has_its_time() -> None:
    assert over_after([], timeout_s=300) == 300


def test_a_start_that_got_on_lately_has_more() -> None:
    assert over_after([290], timeout_s=300) == 320
    assert over_after([200], timeout_s=300) == 300
    assert over_after([290], timeout_s=300, worked=True) == 320


def test_a_short_timeout_is_a_short_silence_too() -> None:
    assert over_after([2, 4], timeout_s=3) == 7


def test_whoever_always_gets_on_has_a_bound() -> None:
    assert over_after(list(range(10_000)), timeout_s=10) == 10 * MOST_TIMES


def test_a_trickle_of_work_is_waiting() -> None:
    clock = Time()
    patience = Patience(10, clock)
    for second in range(11):
        clock.now_s = 1000.0 + second
        patience.saw(0, second * 4096)
    assert patience.is_over


@given(st.lists(st.integers(0, 400)), st.integers(1, 400))
def test_nobody_waits_shorter_than_told_or_longer_than_the_bound(moments: list[int], timeout_s: int) -> None:
    assert timeout_s <= over_after(moments, timeout_s=timeout_s) <= timeout_s * MOST_TIMES


@pytest.mark.parametrize(
    ("code", "lines", "is_permanent"),
    [
        (2, ["whitedwarf: unknown option --x"], True),
        (127, [], True),
        (1, ["whitedwarf: loading m", "whitedwarf: m.gguf: found GGUF version 0; expected version 2 or 3."], True),
        (1, ["whitedwarf: m: not enough memory for this"], False),
        (1, ["whitedwarf: loading m", "Traceback (most recent call last):", "ZeroDivisionError"], False),
        (1, ["llama_model_load: failed to load model from x"], True),
        (1, ["srv load_model: failed to load model", "cudaMalloc failed: out of memory"], False),
        (1, ["error: couldn't bind HTTP server socket, hostname: x, port: 1"], False),
        (-9, ["failed to load model"], False),
        (1, ["hm"], False),
        (0, [], False),
    ],
)
def test_what_would_fail_again_is_told_apart(code: int, lines: list[str], is_permanent: bool) -> None:
    error = start_failure.ended("m", code, lines)
    assert error.is_permanent is is_permanent
    assert error.log_tail == tuple(lines)


def test_a_failure_says_the_line_that_says_most() -> None:
    lines = ["loading", "E error: invalid argument: --x", "", "main: exiting"]
    error = start_failure.ended("my model", 1, lines)
    assert str(error) == (
        "model 'my model' did not start: its server ended with exit code 1 while it started; "
        "its last words: E error: invalid argument: --x"
    )


def test_a_failure_keeps_twenty_lines_and_one_short_sentence() -> None:
    error = start_failure.ended("m", -11, [f"error {i} " + "x" * 5000 for i in range(99)])
    assert len(error.log_tail) == 20
    assert len(str(error)) < 500
    assert "by signal 11" in str(error)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["llama_model_loader: loaded meta data with 26 key-value pairs and 12 tensors"], "loading the model"),
        (["load_tensors: loading model tensors, this can take a while... (mmap = true)"], "loading the model"),
        (["0.00.021.109 I srv    load_model: loading model '/tmp/markov.gguf'"], "loading the model"),
        (["I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 1024"], "making room for the context"),
        (["load_tensors: loading model tensors, …", "." * 37], "loading the model: 37 %"),
        (["load_tensors: offloading 32 repeating layers to GPU"], "loading the model: 32 layers on the GPU"),
        (["load_tensors: offloaded 33/33 layers to GPU"], "loading the model: 33/33 layers on the GPU"),
        (["llama_context: constructing llama_context"], "making room for the context"),
        (["common_init: warming up the model with an empty run"], "warming up"),
        (["loading: 3.9 s left"], "loading: 3.9 s left"),
        (["whitedwarf: reading weights 40%", "noise"], "reading weights 40%"),
        (["noise"], None),
        ([], None),
    ],
)
def test_what_a_child_says_becomes_a_few_words(lines: list[str], text: str | None) -> None:
    assert loading_text(lines) == text


@given(st.lists(st.text()))
def test_whatever_it_says_the_words_are_few(lines: list[str]) -> None:
    assert len(loading_text(lines) or "") <= 80


@pytest.mark.parametrize(
    ("text", "worked_mb", "file_mb", "shown"),
    [
        ("loading the model", 370, 1000, "loading the model: about 35 %"),
        (None, 370, 1000, "loading the model: about 35 %"),
        ("loading the model", 5000, 1000, "loading the model: about 95 %"),
        ("loading the model", 10, 1000, "loading the model"),
        ("loading the model", 10, 20, "loading the model"),
        (None, 0, 0, None),
        ("making room for the context", 370, 1000, "making room for the context"),
    ],
)
def test_what_it_does_not_say_is_guessed_from_what_it_has_read(
    text: str | None, worked_mb: int, file_mb: int, shown: str | None
) -> None:
    assert with_share(text, worked_mb << 20, file_mb << 20) == shown


def test_of_a_llama_server_that_cannot_load_its_first_error_is_told() -> None:
    lines = (
        "0.00.007.620 I srv    load_model: loading model '/m.gguf'",
        "0.00.008.372 E llama_model_load: error loading model: tensor 'output.weight' is not within the file bounds",
        "0.00.008.378 E llama_model_load_from_file_impl: failed to load model",
        "0.00.008.551 E srv    load_model: failed to load model, '/m.gguf'",
        "0.00.008.553 I srv    operator(): operator(): cleaning up before exit...",
        "0.00.009.531 E srv  llama_server: exiting due to model loading error",
    )
    assert str(start_failure.ended("m", 1, lines)).endswith("is not within the file bounds")
