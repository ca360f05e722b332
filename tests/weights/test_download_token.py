"""Where the hub's token comes from."""

from pathlib import Path

import pytest

from whitedwarf.errors import UsageError
from whitedwarf.weights.token import Token, find_token, token_file


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_argument_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / ".cache" / "huggingface" / "token", "hf_file\n")
    environment = {"HF_TOKEN": " hf_variable\n"}
    assert find_token("hf_argument", environment, tmp_path) == Token("hf_argument", "--token")
    assert find_token(None, environment, tmp_path) == Token("hf_variable", "HF_TOKEN")
    assert find_token(None, {"HUGGING_FACE_HUB_TOKEN": "hf_old"}, tmp_path) == Token("hf_old", "HUGGING_FACE_HUB_TOKEN")
    assert find_token(None, {"HF_TOKEN": ""}, tmp_path) == Token("hf_file", str(path))


def test_variables_move_the_file(tmp_path: Path) -> None:
    assert token_file({"HF_TOKEN_PATH": "/a/t", "HF_HOME": "/b"}, tmp_path) == Path("/a/t")
    assert token_file({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, tmp_path) == Path("/b/token")
    assert token_file({"XDG_CACHE_HOME": "/c"}, tmp_path) == Path("/c/huggingface/token")


def test_without_a_token_there_is_none(tmp_path: Path) -> None:
    assert find_token(None, {}, tmp_path) is None
    path = written(tmp_path / ".cache" / "huggingface" / "token", "\n")
    assert find_token(None, {}, tmp_path) is None
    path.write_bytes(b"\xff\xfe")
    assert find_token(None, {}, tmp_path) is None


@pytest.mark.parametrize("text", ["", "two words", "hf_ä", "hf\x00x", "hf_a\nhf_b"])
def test_what_no_header_can_carry_is_refused_without_being_shown(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the token from --token is no access token") as caught:
        find_token(text, {}, tmp_path)
    assert not text or text not in str(caught.value)


def test_a_token_is_not_shown() -> None:
    assert "hf_secret" not in repr(Token("hf_secret", "HF_TOKEN"))
