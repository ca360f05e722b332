"""The keys of a cluster: who is believed, and what is refused before anybody is asked."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.verification import PolicyBuilder, Store

from whitedwarf.cli.main import main
from whitedwarf.cluster.key_folder import KeyFolder, read_certificate
from whitedwarf.cluster.keys import Authority, add_keys, make_keys
from whitedwarf.cluster.security import Trust
from whitedwarf.errors import UsageError


def test_keys_are_made_for_this_machine_and_for_others_and_are_believed(tmp_path: Path) -> None:
    first = make_keys(tmp_path / "keys")
    other = add_keys(tmp_path / "keys", "mac-2.local")
    for folder in (first, other):
        folder.check()
        assert read_certificate(folder.authority) == read_certificate(first.authority)
    store = Store([read_certificate(first.authority)])
    verified = PolicyBuilder().store(store).build_client_verifier().verify(read_certificate(other.certificate), [])
    assert [name.value for name in verified.subjects or ()] == ["mac-2.local"]


def test_nobody_else_may_read_a_private_key_and_nothing_is_overwritten(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "keys")
    add_keys(keys.folder, "b")
    for path in tmp_path.rglob("*.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.folder.stat().st_mode) == 0o700
    assert not (keys.folder / "b" / "ca.key").exists()
    before = keys.authority.read_bytes()
    with pytest.raises(UsageError, match="has keys already"):
        make_keys(keys.folder)
    with pytest.raises(UsageError, match="is there already"):
        add_keys(keys.folder, "b")
    assert keys.authority.read_bytes() == before


@pytest.mark.parametrize("name", ["../out", "a/b", "", "-x", "a..b", "x" * 80, "a b"])
def test_names_that_might_be_paths_are_refused(tmp_path: Path, name: str) -> None:
    keys = make_keys(tmp_path / "keys")
    with pytest.raises(UsageError, match="expected a machine's name"):
        add_keys(keys.folder, name)
    assert {path.name for path in tmp_path.iterdir()} == {"keys"}


def test_a_folder_that_others_can_read_or_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "keys")
    keys.key.chmod(0o640)
    if os.name == "posix":
        with pytest.raises(UsageError, match="chmod 600"):
            keys.check()
    keys.key.unlink()
    with pytest.raises(UsageError, match=r"expected member\.key"):
        keys.check()
    with pytest.raises(UsageError, match=r"expected ca\.pem"):
        KeyFolder(tmp_path / "nowhere").check()


def test_expired_keys_and_those_of_tomorrow_say_so(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "keys", days=3)
    now = datetime.now(UTC)
    keys.check(now + timedelta(days=2))
    with pytest.raises(UsageError, match="expired on"):
        keys.check(now + timedelta(days=4))
    with pytest.raises(UsageError, match="clock"):
        keys.check(now - timedelta(days=2))


def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    keys, other = make_keys(tmp_path / "a"), make_keys(tmp_path / "b")
    keys.certificate.write_bytes(other.certificate.read_bytes())
    with pytest.raises(UsageError, match="was not made by the authority"):
        keys.check()
    keys.certificate.write_text("no certificate")
    with pytest.raises(UsageError, match="expected a certificate"):
        keys.check()


def test_only_the_folder_with_the_authoritys_key_adds_machines(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "keys")
    added = add_keys(keys.folder, "b")
    with pytest.raises(UsageError, match=r"ca\.key"):
        add_keys(added.folder, "c")


def test_keys_are_elliptic_and_authorities_differ(tmp_path: Path) -> None:
    keys = make_keys(tmp_path / "keys")
    key = load_pem_private_key(keys.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert Authority.make().certificate.serial_number != Authority.make().certificate.serial_number


def test_without_keys_a_cluster_needs_an_explicit_word(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs --cluster-keys"):
        Trust.of(None, is_plaintext=False)
    with pytest.raises(UsageError, match="contradict"):
        Trust.of(tmp_path, is_plaintext=True)
    assert Trust.of(None, is_plaintext=True).address("::1", 5) == "tcp://[::1]:5"
    assert Trust.of(make_keys(tmp_path / "k").folder, is_plaintext=False).address("h", 5) == "tls://h:5"


def test_the_command_makes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "keys"
    assert main(["cluster", "keys", str(folder)]) == 0
    assert main(["cluster", "keys", str(folder), "--add", "second", "--days", "10"]) == 0
    assert "carry the folder there" in capsys.readouterr().out
    until = read_certificate(folder / "second" / "member.pem").not_valid_after_utc
    assert until < datetime.now(UTC) + timedelta(days=11)
    assert main(["cluster", "keys", str(folder)]) == 2
