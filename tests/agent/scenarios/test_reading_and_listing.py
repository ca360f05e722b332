"""The reading tools, through the whole agent: what they give, and every error of theirs."""

import os

import pytest

from agent.scenarios.play import Play
from agent.scenarios.replies import call, calls, says
from whitedwarf.agent.events import AnswerEnd

DONE = says("Done.")
TEN = "".join(f"line {number}\n" for number in range(1, 11))


def test_a_file_is_read_and_spoken_of(play: Play) -> None:
    with play(calls(call("read", path="a.txt")), says("It says hello."), files={"a.txt": "hello\n"}) as scene:
        scene.user("What is in a.txt?")
        assert scene.results == ["a.txt: lines 1-1 of 1\n1 hello"]
        assert scene.said == "It says hello."
        assert scene.answers == [AnswerEnd.CALLS, AnswerEnd.DONE]
        assert "<tool_result>a.txt: lines 1-1 of 1\n1 hello</tool_result>" in scene.told()


def test_a_long_file_is_read_in_pieces_with_more(play: Play) -> None:
    script = [calls(call("read", path="a.txt", max_lines=4)), calls(call("more", count=4)), calls(call("more")), DONE]
    with play(*script, files={"a.txt": TEN}) as scene:
        scene.user("Read a.txt.")
        headers = [result.split("\n")[0] for result in scene.results]
        assert headers == [
            "a.txt: lines 1-4 of 10; continue_offset=5; call more to go on",
            "a.txt: lines 5-8 of 10; continue_offset=9; call more to go on",
            "a.txt: lines 9-10 of 10",
        ]


def test_numbers_and_flags_may_be_written_as_strings(play: Play) -> None:
    script = [calls(call("read", path="a.txt", start_line="9", max_lines="1", raw="True")), DONE]
    with play(*script, files={"a.txt": TEN}) as scene:
        scene.user("Read line 9.")
        assert scene.results[0].startswith("line 9\n")


BROKEN_READS = [
    ({}, "the parameter path is missing; it is required"),
    ({"path": ""}, "the path is empty"),
    ({"path": "none.txt"}, "none.txt: there is no such file or folder; look at the folder with list"),
    ({"path": "sub"}, "sub: is a folder, not a regular file"),
    ({"path": "a.txt/b"}, "a part of the path is a file, not a folder"),
    ({"path": "x" * 300}, "the name is too long"),
    ({"path": "a\0b"}, "a path cannot hold a NUL character"),
    ({"path": "circle"}, "circle: is a symlink, not a regular file"),
    ({"path": "pipe"}, "pipe: is a pipe, not a regular file"),
    ({"path": "binary"}, "binary: is a binary file (NUL at byte 2)"),
    ({"path": "huge"}, "huge: has 17.0 MiB, and at most 16 MiB are handled"),
    ({"path": "a.txt", "start_line": 11}, "has 10 lines; start_line 11 is behind its end"),
    ({"path": "a.txt", "start_line": "first"}, "expected start_line to be a number from 1 to 1000000, got 'first'"),
    ({"path": "a.txt", "max_lines": 0}, "expected max_lines to be a number from 1 to 1000000, got 0"),
    ({"path": "a.txt", "whole": "perhaps"}, "expected whole to be true or false, got 'perhaps'"),
    ({"path": ["a.txt"]}, "expected path to be a string, got list"),
    ({"path": "wide.txt", "whole": True}, "300000 characters are too many to read whole; at most 262144"),
]


@pytest.mark.parametrize(("arguments", "error"), BROKEN_READS, ids=[error[:40] for _, error in BROKEN_READS])
def test_each_error_of_read_is_told_and_the_model_goes_on(play: Play, arguments: dict[str, object], error: str) -> None:
    files = {"a.txt": TEN, "sub/b.txt": "", "binary": b"ab\0c", "wide.txt": "x" * 300_000}
    with play(calls(call("read", **arguments)), DONE, files=files) as scene:  # type: ignore[arg-type]
        scene.path("circle").symlink_to("circle")
        os.mkfifo(scene.path("pipe"))
        with scene.path("huge").open("wb") as huge:
            huge.truncate(17 << 20)
        scene.user("Read.")
        (result,) = scene.results
        assert result.startswith("Tool error: ")
        assert error in result
        assert scene.turns == [AnswerEnd.DONE]


def test_more_without_a_reading_is_an_error(play: Play) -> None:
    with play(calls(call("more")), DONE) as scene:
        scene.user("Go on.")
        assert scene.results == ["Tool error: there is nothing to go on with; read a file first"]


def test_more_behind_the_end_is_an_error(play: Play) -> None:
    with play(calls(call("read", path="a.txt"), call("more")), DONE, files={"a.txt": "one\n"}) as scene:
        scene.user("Read a.txt.")
        assert "was read to its end" in scene.results[1]


def test_a_file_that_shrinks_between_two_readings_is_told(play: Play) -> None:
    script = [calls(call("read", path="a.txt", max_lines=5)), says("Five."), calls(call("more")), DONE]
    with play(*script, files={"a.txt": TEN}) as scene:
        scene.user("Read five lines.")
        scene.path("a.txt").write_text("one\n")
        scene.user("And the rest.")
        assert scene.results[1] == "Tool error: a.txt is shorter now: 1 lines; read it again"


def test_a_strict_workspace_is_not_left_by_any_road(play: Play) -> None:
    roads = ["../outside/secret.txt", "/etc/hostname", "way_out/secret.txt", "~/x"]
    with play(calls(*(call("read", path=road) for road in roads)), DONE, is_strict=True) as scene:
        scene.path("way_out").symlink_to(scene.folder / "outside")
        scene.user("Look around.")
        assert len(scene.results) == len(roads)
        assert all("is outside of the workspace" in result for result in scene.results)


def test_a_folder_is_listed(play: Play) -> None:
    with play(calls(call("list")), DONE, files={"a.txt": "12345", "sub/b": ""}) as scene:
        scene.user("What is here?")
        assert scene.results[0].startswith(".: 2 entries\n- 5 a.txt\nd ")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("none", "none: there is no such file or folder"),
        ("a.txt", "a.txt: is no folder; use read to see a file"),
        ("", "the path is empty"),
    ],
)
def test_each_error_of_list_is_told(play: Play, path: str, error: str) -> None:
    with play(calls(call("list", path=path)), DONE, files={"a.txt": ""}) as scene:
        scene.user("List it.")
        assert scene.results[0].startswith(f"Tool error: {error}")


def test_a_text_is_found(play: Play) -> None:
    files = {"a.py": "x = 1\ny = two\n", "b.txt": "two\n"}
    script = [calls(call("search", query="two", glob="*.py"), call("search", query="^t", mode="regex")), DONE]
    with play(*script, files=files) as scene:
        scene.user("Where is two?")
        assert scene.results == [
            '1 match for "two" in . (1 file)\na.py\n  2 y = two',
            '1 match for "^t" in . (1 file)\nb.txt\n  1 two',
        ]


def test_nothing_that_is_found_is_no_error(play: Play) -> None:
    with play(calls(call("search", query="three")), DONE, files={"a.py": "two\n"}) as scene:
        scene.user("Where is three?")
        assert scene.results == ['No matches for "three" in .']


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "the parameter query is missing; it is required"),
        ({"query": ""}, "query is empty; give the text to look for"),
        ({"query": "a\nb"}, "query has a line break"),
        ({"query": "x" * 5000}, "query has 5000 characters; at most 4096"),
        ({"query": "a", "mode": "fuzzy"}, "expected mode to be literal or regex, got 'fuzzy'"),
        ({"query": "(", "mode": "regex"}, "query is no regular expression"),
        ({"query": "a", "path": "none"}, "none: cannot be searched (No such file or directory)"),
        ({"query": "a", "context": 9}, "expected context to be a number from 0 to 5, got 9"),
        ({"query": "a", "max_results": 0}, "expected max_results to be a number from 1 to 500, got 0"),
        ({"query": "a", "case_sensitive": "maybe"}, "expected case_sensitive to be true or false"),
    ],
)
def test_each_error_of_search_is_told(play: Play, arguments: dict[str, object], error: str) -> None:
    with play(calls(call("search", **arguments)), DONE, files={"a.txt": "a\n"}) as scene:  # type: ignore[arg-type]
        scene.user("Search.")
        assert scene.results[0].startswith(f"Tool error: {error}")
