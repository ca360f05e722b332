"""Saying something never waits, whoever reads or does not."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from whitedwarf.supervisor.log_stream import LogStream


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for one in (reading, writing):
        os.close(one)


def said_to(descriptor: int) -> logging.Logger:
    logger = logging.Logger("said", logging.INFO)
    logger.addHandler(LogStream(descriptor))
    return logger


def test_lines_arrive_whole(pipe: tuple[int, int]) -> None:
    log = said_to(pipe[1])
    log.info("ä %s", "x" * 5000)
    log.info("\ud800")
    assert os.read(pipe[0], 1 << 16).decode() == "ä " + "x" * 5000 + "\n\\ud800\n"


def test_what_nobody_reads_is_lost_and_counted(pipe: tuple[int, int]) -> None:
    log = said_to(pipe[1])
    for number in range(5000):
        log.info("%0100d", number)
    first = os.read(pipe[0], 1 << 20).decode()
    num_lost = 5000 - first.count("\n")
    log.info("at last")
    assert 0 < num_lost < 5000
    assert (
        os.read(pipe[0], 1 << 20).decode() == f"({num_lost} entries before this one were lost: nobody read)\nat last\n"
    )


def test_a_file_takes_everything_and_a_closed_one_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    descriptor = os.open(tmp_path / "said", os.O_WRONLY | os.O_CREAT)
    log = said_to(descriptor)
    log.info("a" * 100_000)
    os.close(descriptor)
    log.info("b")
    assert (tmp_path / "said").read_text() == "a" * 100_000 + "\n"


def test_whoever_has_gone_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    reading, writing = os.pipe()
    os.close(reading)
    said_to(writing).info("anybody?")
    os.close(writing)
