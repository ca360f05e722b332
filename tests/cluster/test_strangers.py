"""Who has no key of the cluster gets nothing from it, and nothing that he sends is unpickled."""

import asyncio
import json
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from distributed.comm import listen
from distributed.comm.tcp import _add_frames_header
from distributed.protocol import dumps
from distributed.protocol.serialize import ToPickle

from fakes.cluster_processes import ClusterProcesses
from whitedwarf.cli.main import main
from whitedwarf.cluster.key_folder import KeyFolder
from whitedwarf.cluster.keys import Authority, make_keys

_ALERT = b"\x15"  # how TLS says no


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def bombs(file: Path) -> bytes:
    """As dask frames a message, for whoever reads one at all."""
    frames, _, _ = _add_frames_header(dumps({"op": "identity", "x": ToPickle(Bomb(file))}))
    return b"".join(frames)


def expired(keys: KeyFolder, folder: Path) -> KeyFolder:
    """A certificate of our own authority, of the day before yesterday."""
    folder.mkdir()
    found = KeyFolder(folder)
    Authority.read(keys).issue(found, "late", 1, datetime.now(UTC) - timedelta(days=2))
    return found


def tls(stranger: KeyFolder | None) -> ssl.SSLContext:
    """Whoever is there is believed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if stranger is not None:
        context.load_cert_chain(stranger.certificate, stranger.key)
    return context


def heard(port: int, sent: bytes, context: ssl.SSLContext | None) -> bytes:
    """All that comes back until the other end hangs up."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), 30) as plain:
        try:
            line = plain if context is None else context.wrap_socket(plain)
            with line:
                line.sendall(sent)
                while data := line.recv(1 << 16):
                    answer += data
        except (ssl.SSLError, ConnectionError):
            return answer
    return answer


@pytest.mark.slow
def test_strangers_get_nothing_and_nothing_is_unpickled_for_them(
    processes: ClusterProcesses, keys: KeyFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "exploded"
    processes.meet()
    member = processes.join("--layers", "3:output")
    member_port = int(member.until(r"reached at tls://\S+:(\d+)")[1])
    others = make_keys(tmp_path / "others")
    for port in (processes.port, member_port):
        assert heard(port, bombs(file), None)[:1] in (b"", _ALERT)
        for stranger in (None, others, expired(keys, tmp_path / f"late-{port}")):
            assert heard(port, bombs(file), tls(stranger)) == b""
    assert not file.exists()
    status = ["cluster", "status", f"127.0.0.1:{processes.port}", "--json", "--cluster-patience", "2"]
    assert main([*status, "--cluster-keys", str(others.folder)]) == 1
    assert main([*status, "--plaintext"]) == 1
    assert "nobody whom these keys open" in capsys.readouterr().err
    with processes_of(others, tmp_path, processes.port) as strange:
        assert strange.join().process.wait(60) == 1
        assert "keys of another cluster" in strange.all[0].said
    assert main([*status, *processes.trust]) == 0
    assert len(json.loads(capsys.readouterr().out)["members"]) == 1


def processes_of(keys: KeyFolder, folder: Path, port: int) -> "Any":
    from contextlib import closing

    place = folder / "strange"
    place.mkdir()
    return closing(ClusterProcesses(place, ("--cluster-keys", str(keys.folder)), port=port))


def test_the_bomb_of_these_tests_explodes_where_there_is_no_tls(tmp_path: Path) -> None:
    file = tmp_path / "exploded"

    async def explode() -> None:
        listener = await listen("tcp://127.0.0.1:0", lambda comm: None)
        _, writer = await asyncio.open_connection("127.0.0.1", int(listener.contact_address.rpartition(":")[2]))
        writer.write(bombs(file))
        await writer.drain()
        for _ in range(100):
            await asyncio.sleep(0.05)
            if file.exists():
                break
        writer.close()
        listener.stop()

    asyncio.run(explode())
    assert file.exists()
