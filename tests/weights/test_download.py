"""Fetching from a hub that misbehaves: nothing half-written under the final name, nothing fetched twice."""

import contextlib
import errno
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakes.hub import BRANCH, COMMIT, REPO, FakeHub, running
from whitedwarf.errors import DownloadError, UsageError
from whitedwarf.weights import download as download_module
from whitedwarf.weights import fetch as fetch_module
from whitedwarf.weights.download import Hub, TransferCutError, find_endpoint
from whitedwarf.weights.fetch import Item, check_present, check_space, fetch, make_folder, plan
from whitedwarf.weights.part_file import PartFile, part_path
from whitedwarf.weights.token import Token

NAME = "model.gguf"
DATA = bytes(range(256)) * 1200


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with running(FakeHub({NAME: DATA, "README.md": b"# Models\n"}, small={"README.md"})) as hub:
        yield hub


@pytest.fixture
def hub(fake: FakeHub) -> Hub:
    return Hub(fake.url)


def planned(hub: Hub, folder: Path, name: str = NAME) -> Item:
    return plan([hub.describe(REPO, BRANCH, name)], folder)[0]


class Heard:
    """What `fetch` tells."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int]] = []
        self.said: list[str] = []
        self.slept: list[float] = []

    def step(self, doing: str, done_bytes: int) -> None:
        self.steps.append((doing, done_bytes))

    def fetch(self, hub: Hub, item: Item) -> None:
        fetch(hub, item, self.step, self.said.append, self.slept.append)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_hub_lists_and_describes_its_files(hub: Hub, fake: FakeHub) -> None:
    assert hub.list_files(REPO, BRANCH) == (NAME, "README.md")
    large, small = hub.describe(REPO, BRANCH, NAME), hub.describe(REPO, BRANCH, "README.md")
    assert (large.commit, large.identity.size_bytes, large.identity.digest) == (COMMIT, len(DATA), fake.digest(NAME))
    assert (small.identity.size_bytes, small.identity.digest) == (9, fake.digest("README.md"))


@pytest.mark.parametrize("name", [NAME, "README.md"])
def test_a_file_arrives_whole(hub: Hub, fake: FakeHub, tmp_path: Path, name: str) -> None:
    heard = Heard()
    heard.fetch(hub, planned(hub, tmp_path, name))
    assert (tmp_path / name).read_bytes() == fake.files[name]
    assert names(tmp_path) == [name]
    assert heard.steps[-1] == ("fetching", len(fake.files[name]))
    assert planned(hub, tmp_path, name).is_present


def test_an_empty_file_arrives(hub: Hub, fake: FakeHub, tmp_path: Path) -> None:
    fake.files["empty"] = b""
    Heard().fetch(hub, planned(hub, tmp_path, "empty"))
    assert (tmp_path / "empty").read_bytes() == b""


def test_bytes_are_asked_for_at_the_commit_that_was_described(hub: Hub, fake: FakeHub, tmp_path: Path) -> None:
    Heard().fetch(hub, planned(hub, tmp_path))
    assert next(path for method, path, _ in fake.seen if method == "GET") == f"/{REPO}/resolve/{COMMIT}/{NAME}"


def test_a_cut_is_continued_in_the_same_run(hub: Hub, fake: FakeHub, tmp_path: Path) -> None:
    fake.cuts = [100_000, 50_000]
    heard = Heard()
    heard.fetch(hub, planned(hub, tmp_path))
    assert (tmp_path / NAME).read_bytes() == DATA
    assert heard.slept == [1.0, 1.0]  # bytes came in between, so it does not wait longer
    assert "trying again in 1 s" in heard.said[0]
    assert fake.ranges() == [f"bytes={start}-{len(DATA) - 1}" for start in (0, 100_000, 150_000)]


def test_a_run_that_was_ended_is_continued_by_the_next(hub: Hub, fake: FakeHub, tmp_path: Path) -> None:
    class Impatient(Heard):
        def step(self, doing: str, done_bytes: int) -> None:
            raise KeyboardInterrupt

    item = planned(hub, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        Impatient().fetch(hub, item)
    there = part_path(item.path, item.remote.identity).stat().st_size
    assert 0 < there < len(DATA)
    assert names(tmp_path) == [f"{NAME}.{fake.digest(NAME)[:12]}.part"]
    again = planned(hub, tmp_path)
    assert (again.part_bytes, again.missing_bytes) == (there, len(DATA) - there)
    Heard().fetch(hub, again)
    assert fake.ranges()[-1] == f"bytes={there}-{len(DATA) - 1}"
    assert (tmp_path / NAME).read_bytes() == DATA
    assert names(tmp_path) == [NAME]


@settings(max_examples=25)
@given(
    cuts=st.lists(st.integers(0, len(DATA)), max_size=8),
    stops=st.lists(st.integers(1, len(DATA)), max_size=3),
    request_bytes=st.integers(40_000, 2 * len(DATA)),
)
def test_cuts_and_ends_anywhere_give_the_same_file_and_nothing_under_its_name_before(
    cuts: list[int], stops: list[int], request_bytes: int
) -> None:
    class Watching(Heard):
        def step(self, doing: str, done_bytes: int) -> None:
            assert not item.path.exists()
            if stops and done_bytes >= stops[-1]:
                stops.pop()
                raise KeyboardInterrupt

    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory() as folder,
        running(FakeHub({NAME: DATA}, cuts=cuts)) as fake,
    ):
        patch.setattr(fetch_module, "REQUEST_BYTES", request_bytes)
        hub = Hub(fake.url)
        while not (item := planned(hub, Path(folder))).is_present:
            with contextlib.suppress(KeyboardInterrupt):
                Watching().fetch(hub, item)
        assert item.path.read_bytes() == DATA
        assert names(Path(folder)) == [NAME]


def test_after_many_cuts_without_a_byte_it_gives_up_and_keeps_what_came(
    hub: Hub, fake: FakeHub, tmp_path: Path
) -> None:
    fake.cuts = [70_000] + [0] * 20
    heard = Heard()
    item = planned(hub, tmp_path)
    with pytest.raises(DownloadError, match=r"70\.0 kB of 307\.2 kB are kept, run the same command again"):
        heard.fetch(hub, item)
    assert heard.slept == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0, 60.0]
    assert part_path(item.path, item.remote.identity).stat().st_size == 70_000
    fake.cuts = []
    heard.fetch(hub, planned(hub, tmp_path))
    assert (tmp_path / NAME).read_bytes() == DATA


def test_a_busy_hub_is_asked_again(hub: Hub, fake: FakeHub, tmp_path: Path) -> None:
    fake.busy = 2
    heard = Heard()
    heard.fetch(hub, planned(hub, tmp_path))
    assert heard.slept == [1.0, 2.0]
    assert "HTTP 503" in heard.said[0]
    assert (tmp_path / NAME).read_bytes() == DATA


@pytest.mark.parametrize(("asked", "waits"), [("30", 30.0), ("99999", 600.0), ("Mon, 30 Nov 2026 14:00:00 GMT", 1.0)])
def test_a_hub_that_says_how_long_it_is_busy_is_left_alone_so_long(
    hub: Hub, fake: FakeHub, tmp_path: Path, asked: str, waits: float
) -> None:
    fake.busy, fake.retry_after = 1, asked
    heard = Heard()
    heard.fetch(hub, planned(hub, tmp_path))
    assert heard.slept == [waits]


def test_a_name_with_unusual_letters_arrives(hub: Hub, fake: FakeHub, tmp_path: Path) -> None:
    fake.files["a folder/wéird [1]#?%20.gguf"] = DATA
    Heard().fetch(hub, planned(hub, tmp_path, "a folder/wéird [1]#?%20.gguf"))
    assert (tmp_path / "wéird [1]#?%20.gguf").read_bytes() == DATA


def test_a_large_file_is_asked_for_in_several_requests(
    hub: Hub, fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_module, "REQUEST_BYTES", 100_000)
    heard = Heard()
    heard.fetch(hub, planned(hub, tmp_path))
    assert len(fake.ranges()) == 4
    assert heard.slept == []
    assert (tmp_path / NAME).read_bytes() == DATA


def test_wrong_bytes_never_get_the_final_name(hub: Hub, fake: FakeHub, tmp_path: Path) -> None:
    fake.corrupt = True
    item = planned(hub, tmp_path)
    with pytest.raises(DownloadError, match="not those that the hub promised"):
        Heard().fetch(hub, item)
    assert names(tmp_path) == []


def test_a_damaged_part_of_an_earlier_run_is_fetched_anew(hub: Hub, tmp_path: Path) -> None:
    item = planned(hub, tmp_path)
    part_path(item.path, item.remote.identity).write_bytes(b"\0" * 1000)
    heard = Heard()
    heard.fetch(hub, planned(hub, tmp_path))
    assert "damaged" in heard.said[0]
    assert ("checking", 1000) in heard.steps
    assert (tmp_path / NAME).read_bytes() == DATA


def test_a_part_longer_than_the_file_is_thrown_away(hub: Hub, tmp_path: Path) -> None:
    item = planned(hub, tmp_path)
    part_path(item.path, item.remote.identity).write_bytes(DATA + b"more")
    Heard().fetch(hub, planned(hub, tmp_path))
    assert (tmp_path / NAME).read_bytes() == DATA


def test_a_complete_part_only_needs_its_name(hub: Hub, fake: FakeHub, tmp_path: Path) -> None:
    item = planned(hub, tmp_path)
    part_path(item.path, item.remote.identity).write_bytes(DATA)
    Heard().fetch(hub, planned(hub, tmp_path))
    assert fake.ranges() == []
    assert names(tmp_path) == [NAME]


def test_a_file_that_changed_on_the_hub_is_not_continued_with_the_old_part(
    hub: Hub, fake: FakeHub, tmp_path: Path
) -> None:
    item = planned(hub, tmp_path)
    part_path(item.path, item.remote.identity).write_bytes(DATA[:1000])
    fake.files[NAME] = DATA[::-1]
    changed = planned(hub, tmp_path)
    assert changed.part_bytes == 0
    Heard().fetch(hub, changed)
    assert (tmp_path / NAME).read_bytes() == DATA[::-1]


def test_a_server_without_ranges_serves_whole_files_and_no_parts(hub: Hub, fake: FakeHub, tmp_path: Path) -> None:
    fake.ignores_ranges = True
    fake.cuts = [1000]
    with pytest.raises(DownloadError, match=r"asked for bytes 1000-307199/307200, got HTTP 200"):
        Heard().fetch(hub, planned(hub, tmp_path))
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [1000]
    next(tmp_path.iterdir()).unlink()
    Heard().fetch(hub, planned(hub, tmp_path))
    assert (tmp_path / NAME).read_bytes() == DATA


def test_the_token_goes_to_the_hub_and_not_to_its_store(fake: FakeHub, tmp_path: Path) -> None:
    fake.token = "hf_secret"
    hub = Hub(fake.url, Token("hf_secret", "--token"))
    hub.list_files(REPO, BRANCH)
    Heard().fetch(hub, planned(hub, tmp_path))
    tokens = {path.split("/")[1]: headers.get("authorization") for _, path, headers in fake.seen}
    assert tokens == {"api": "Bearer hf_secret", "org": "Bearer hf_secret", "store": None}


def test_a_hub_that_wants_a_token_is_told_with_what_to_do(fake: FakeHub) -> None:
    fake.token = "hf_secret"
    with pytest.raises(DownloadError, match=r"HTTP 401.*give it as HF_TOKEN or --token, or with `hf auth login`"):
        Hub(fake.url).list_files(REPO, BRANCH)
    with pytest.raises(DownloadError, match="refused the token from HF_TOKEN") as caught:
        Hub(fake.url, Token("hf_wrong", "HF_TOKEN")).describe(REPO, BRANCH, NAME)
    assert "hf_wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "message"),
    [(403, "accept its terms"), (410, "answered HTTP 410"), (404, "has no repository org/models")],
)
def test_other_refusals_are_told(hub: Hub, fake: FakeHub, status: int, message: str) -> None:
    fake.status = status
    with pytest.raises(DownloadError, match=message):
        hub.describe(REPO, BRANCH, NAME)


def test_what_the_hub_does_not_have_is_told(hub: Hub) -> None:
    with pytest.raises(DownloadError, match="org/models has no file other at main"):
        hub.describe(REPO, BRANCH, "other")
    with pytest.raises(DownloadError, match="has no revision v9"):
        hub.list_files(REPO, "v9")
    with pytest.raises(DownloadError, match="has no repository org/other"):
        hub.list_files("org/other", BRANCH)


def test_a_hub_that_does_not_answer_is_told() -> None:
    with pytest.raises(TransferCutError, match=r"no answer from 127\.0\.0\.1:9 .*check the network"):
        Hub("http://127.0.0.1:9").describe(REPO, BRANCH, NAME)


def test_the_endpoint_comes_from_the_environment() -> None:
    assert find_endpoint({}) == "https://huggingface.co"
    assert find_endpoint({"HF_ENDPOINT": "http://localhost:8080/"}) == "http://localhost:8080"
    for text in ("hf-mirror", "ftp://host", "http://", "http://[::1", "http://host:port"):
        with pytest.raises(
            UsageError, match=r"HF_ENDPOINT=.*: expected an address such as https://huggingface"
        ) as caught:
            find_endpoint({"HF_ENDPOINT": text})
        assert text.rstrip("/") in str(caught.value)


def test_what_is_no_hub_is_told(hub: Hub, fake: FakeHub) -> None:
    fake.talks_nonsense = True
    with pytest.raises(DownloadError, match="sent no list of files for org/models; expected a hub such as"):
        hub.list_files(REPO, BRANCH)
    fake.status = 204
    with pytest.raises(DownloadError, match="told no size or commit"):
        hub.describe(REPO, BRANCH, NAME)


def test_a_name_that_the_hub_would_never_give_is_refused(hub: Hub) -> None:
    with pytest.raises(UsageError, match="org/a--b is no repository's name"):
        hub.list_files("org/a--b", BRANCH)


def test_an_answer_that_stands_still_is_given_up_and_continued(
    hub: Hub, fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_module, "_TIMEOUT_S", 0.2)
    fake.gate = gate = threading.Event()
    heard = Heard()
    fetch(hub, planned(hub, tmp_path), heard.step, heard.said.append, lambda wait_s: gate.set())
    assert fake.ranges() == [f"bytes={start}-{len(DATA) - 1}" for start in (0, len(DATA) // 2)]
    assert (tmp_path / NAME).read_bytes() == DATA


def test_a_disk_without_room_is_told_before_anything_is_fetched(hub: Hub, tmp_path: Path) -> None:
    item = planned(hub, tmp_path / "new" / "folder")
    huge = replace(item, remote=replace(item.remote, identity=replace(item.remote.identity, size_bytes=10**18)))
    with pytest.raises(DownloadError, match=r"1000000000\.0 GB are still to be fetched, .* free, .* are missing"):
        check_space([huge], tmp_path / "new" / "folder")
    check_space([item, replace(huge, is_present=True)], tmp_path / "new" / "folder")
    assert names(tmp_path) == []


def test_a_disk_that_fills_up_keeps_what_came(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = PartFile.append

    def full(self: PartFile, data: bytes) -> None:
        if self.size_bytes + len(data) > 100_000:
            append(self, data[: 100_000 - self.size_bytes])
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, data)

    item = planned(hub, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(PartFile, "append", full)
        with pytest.raises(DownloadError, match=r"is full: 100\.0 kB of 307\.2 kB .* 207\.2 kB are missing; make room"):
            Heard().fetch(hub, item)
    assert names(tmp_path) == [part_path(item.path, item.remote.identity).name]
    Heard().fetch(hub, planned(hub, tmp_path))
    assert (tmp_path / NAME).read_bytes() == DATA


def test_a_folder_that_cannot_be_written_is_told(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = planned(hub, tmp_path)

    def read_only(path: Path, *rest: int) -> int:  # in words of the system: as root, the tests may write everywhere
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(DownloadError, match=r"cannot write .*Read-only file system; give another folder with --to"):
        Heard().fetch(hub, item)


def test_a_folder_that_cannot_be_had_is_told(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DownloadError, match="cannot make the folder"):
        make_folder(tmp_path / "file" / "below")
    with pytest.raises(DownloadError, match="cannot write"):
        Heard().fetch(hub, planned(hub, tmp_path / "missing"))


def test_two_at_a_time_fetch_once(hub: Hub, fake: FakeHub, tmp_path: Path) -> None:
    fake.gate = threading.Event()
    first, second = Heard(), Heard()
    items = [planned(hub, tmp_path), planned(hub, tmp_path)]
    threads = [
        threading.Thread(target=heard.fetch, args=(hub, item))
        for heard, item in zip((first, second), items, strict=True)
    ]
    threads[0].start()
    assert fake.on_bytes.wait(60)
    waits = threading.Event()
    second.said = type("Said", (list,), {"append": lambda self, text: (list.append(self, text), waits.set())})()
    threads[1].start()
    assert waits.wait(60)
    fake.gate.set()
    for thread in threads:
        thread.join(60)
    assert "another process is fetching it" in second.said[0]
    assert len(fake.ranges()) == 1
    assert (tmp_path / NAME).read_bytes() == DATA
    assert names(tmp_path) == [NAME]


@pytest.mark.parametrize("is_same", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(hub: Hub, fake: FakeHub, tmp_path: Path, is_same: bool) -> None:
    other = DATA if is_same else b"mine"

    class Racing(Heard):
        def step(self, doing: str, done_bytes: int) -> None:
            if not (tmp_path / NAME).exists():
                (tmp_path / NAME).write_bytes(other)

    item = planned(hub, tmp_path)
    if is_same:
        Racing().fetch(hub, item)
        assert names(tmp_path) == [NAME]
    else:
        with pytest.raises(DownloadError, match="appeared meanwhile and is another file"):
            Racing().fetch(hub, item)
    assert (tmp_path / NAME).read_bytes() == other


def test_a_disk_without_hard_links_gets_the_file_by_renaming(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    Heard().fetch(hub, planned(hub, tmp_path))
    assert (tmp_path / NAME).read_bytes() == DATA
    assert names(tmp_path) == [NAME]


def test_what_is_in_the_way_is_told(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"short")
    with pytest.raises(DownloadError, match=r"a file of 5 bytes, the hub's has 307200 bytes; move it away"):
        planned(hub, tmp_path)
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).symlink_to("nowhere")
    with pytest.raises(DownloadError, match="is a link to nowhere, which is not there; remove the link"):
        planned(hub, tmp_path)
    (tmp_path / NAME).unlink()
    (tmp_path / f"{NAME}.part").touch()
    with pytest.raises(
        DownloadError, match=r"begun by another tool: rename it to model\.gguf\.[0-9a-f]{12}\.part to go on"
    ):
        planned(hub, tmp_path)
    (tmp_path / f"{NAME}.aria2").touch()
    with pytest.raises(DownloadError, match="aria2 has not finished"):
        planned(hub, tmp_path)


def test_a_present_file_is_compared_byte_for_byte_when_asked(hub: Hub, tmp_path: Path) -> None:
    heard = Heard()
    (tmp_path / NAME).write_bytes(DATA)
    check_present(planned(hub, tmp_path), heard.step)
    assert heard.steps == [("checking", len(DATA))]
    (tmp_path / NAME).write_bytes(DATA[:-1] + b"!")
    with pytest.raises(DownloadError, match="its bytes differ though its size is right"):
        check_present(planned(hub, tmp_path), heard.step)


def test_the_hubs_library_is_imported_only_when_it_is_used() -> None:
    code = "import sys, whitedwarf.cli.pull, whitedwarf.cli.models; sys.exit('huggingface_hub' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
