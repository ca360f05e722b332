"""From a target's text to the files that it means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.errors import UsageError
from whitedwarf.weights.targets import PUBLISHED, TARGETS, Target, check_different, choose, local_name, parse_target

SHARDS = [f"q4/big-{number:05}-of-00003.gguf" for number in (1, 2, 3)]
LISTED = ["README.md", "small.gguf", "mtp[1].gguf", *SHARDS]


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_name_means_published_files(name: str) -> None:
    target = parse_target(name)
    assert target.repo == PUBLISHED
    assert choose(target, target.patterns) == target.patterns
    assert target.about


def test_only_whole_models_become_the_default() -> None:
    assert [name for name, target in TARGETS.items() if target.becomes_default] == [
        "q2-imatrix",
        "q2-q4-imatrix",
        "q4-imatrix",
        "pro-q2-imatrix",
    ]
    assert len(TARGETS["pro-q4-split"].patterns) == 2


def test_a_repository_with_and_without_a_path() -> None:
    assert parse_target("org/repo") == Target("org/repo")
    assert parse_target("org/repo/") == Target("org/repo")
    assert parse_target("org/repo/a/b.gguf") == Target("org/repo", ("a/b.gguf",))
    assert str(parse_target("org/repo/a/b.gguf")) == "org/repo/a/b.gguf"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q2-imatrx", "did you mean 'q2-imatrix'"),
        ("q2", "expected org/repo/file, or one of q2-imatrix"),
        ("", "unknown target ''"),
        ("../etc/passwd", "is no repository's name"),
        ("org/re po/x", "is no repository's name"),
        ("https://huggingface.co/org/repo", "is no repository's name"),
    ],
)
def test_what_is_no_target_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_target(text)


@given(st.text())
def test_any_text_is_a_target_or_a_usage_error(text: str) -> None:
    try:
        target = parse_target(text)
    except UsageError:
        return
    assert target.repo.count("/") == 1


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("small.gguf", ["small.gguf"]),
        ("mtp[1].gguf", ["mtp[1].gguf"]),
        ("*.md", ["README.md"]),
        ("s*", ["small.gguf"]),
        ("big-*", SHARDS),  # a pattern without a folder also means the names in folders
        (SHARDS[1], SHARDS),  # any shard means all
        ("q4/*", SHARDS),
    ],
)
def test_a_path_or_pattern_chooses_files(pattern: str, files: list[str]) -> None:
    assert choose(Target("org/repo", (pattern,)), LISTED) == tuple(files)


def test_a_repository_alone_means_its_only_model() -> None:
    assert choose(Target("org/repo"), ["README.md", *SHARDS]) == tuple(SHARDS)
    with pytest.raises(UsageError, match=r"holds 3 models; say which, as org/repo/FILE: mtp\[1\].gguf, q4/big-00001"):
        choose(Target("org/repo"), LISTED)
    with pytest.raises(UsageError, match="holds no GGUF file among its 1"):
        choose(Target("org/repo"), ["README.md"])


def test_what_is_not_there_is_told_with_what_is() -> None:
    with pytest.raises(UsageError, match=r"has no file smal.gguf; it has small.gguf"):
        choose(Target("org/repo", ("smal.gguf",)), LISTED)
    with pytest.raises(UsageError, match=r"has no file \*\.bin; it has small.gguf, mtp"):
        choose(Target("org/repo", ("*.bin",)), LISTED)
    with pytest.raises(UsageError, match="none of its 1 files is a GGUF"):
        choose(Target("org/repo", ("*.bin",)), ["README.md"])


def test_a_model_with_a_missing_shard_is_not_begun() -> None:
    with pytest.raises(UsageError, match=r"is one of 3 shards, and q4/big-00002-of-00003.gguf is not there"):
        choose(Target("org/repo", (SHARDS[0],)), [SHARDS[0], SHARDS[2]])


def test_files_are_kept_under_plain_different_names() -> None:
    assert local_name(SHARDS[0]) == "big-00001-of-00003.gguf"
    for name in ("a/..", "a\\b", "a/\x1b[2J", ""):
        with pytest.raises(UsageError, match="no file should have"):
            local_name(name)
    check_different(SHARDS)
    with pytest.raises(UsageError, match=r"a/x.gguf and b/X.gguf have the same name"):
        check_different(["a/x.gguf", "b/X.gguf"])
