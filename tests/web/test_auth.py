from pathlib import Path

import pytest

from whitedwarf.errors import UsageError
from whitedwarf.web.auth import ApiKeys


def key_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "keys"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_file_has_one_key_a_line(tmp_path: Path) -> None:
    keys = ApiKeys.from_file(key_file(tmp_path, "# mine\nfirst\n\n  second  \n"))
    admitted = [key for key in ("first", "second", "# mine", "", "third") if keys.admits({"x-api-key": key})]
    assert admitted == ["first", "second"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610, 0o777])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UsageError, match="chmod 600"):
        ApiKeys.from_file(key_file(tmp_path, "key\n", mode))


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n"])
def test_a_file_without_keys_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="at least one key"):
        ApiKeys.from_file(key_file(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--api-key-file"):
        ApiKeys.from_file(tmp_path / "none")


def test_every_key_is_compared_whichever_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bool] = []

    def compare(ours: bytes, theirs: bytes) -> bool:
        assert len(ours) == len(theirs) == 32
        compared.append(ours == theirs)
        return compared[-1]

    monkeypatch.setattr("hmac.compare_digest", compare)
    keys = ApiKeys(["a", "b", "c"])
    for offered in ("a", "c", "nothing", "", "a" * 10_000):
        compared.clear()
        keys.admits({"authorization": f"Bearer {offered}"})
        assert len(compared) == 6


def test_a_mark_at_the_beginning_of_the_file_is_no_part_of_a_key(tmp_path: Path) -> None:
    keys = ApiKeys.from_file(key_file(tmp_path, "\ufefffirst\r\nsecond\r\n"))
    assert all(keys.admits({"x-api-key": key}) for key in ("first", "second"))


@pytest.mark.parametrize("cut", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\0", "\x1b", "\r", "\t"])
def test_a_key_with_a_control_character_is_refused_and_not_cut_in_two(tmp_path: Path, cut: str) -> None:
    with pytest.raises(UsageError, match="a control character"):
        ApiKeys.from_file(key_file(tmp_path, f"long secret{cut}x\n"))


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(UsageError, match="--api-key-file /dev/zero"):
        ApiKeys.from_file(Path("/dev/zero"))
