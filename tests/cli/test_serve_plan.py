"""What a server tells when it starts."""

from pathlib import Path

import pytest

from whitedwarf.cli.serve_plan import model_line, open_door_warning, prefixes_line, served_line
from whitedwarf.config import ServeSettings
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.kvstore.stats import StoreStats


def test_the_model_is_named_with_its_size_and_file(nano_path: Path) -> None:
    with open_gguf(nano_path) as gguf:
        line = model_line("nano", gguf)
    assert line.startswith("model nano, 17.6 MiB")
    assert line.endswith(str(nano_path))


def test_it_is_told_where_beginnings_of_prompts_go() -> None:
    serve = ServeSettings(kv_ram_mb=2048, kv_disk_dir=Path("/prompts"))
    assert "up to 2.0 GiB in memory, none on disk (--kv-disk-dir" in prefixes_line(serve, None)
    held = prefixes_line(serve, StoreStats(files=3, bytes=1 << 20, budget_bytes=4 << 30))
    assert held.endswith("up to 4.0 GiB in /prompts (3 files, 1.0 MiB now)")
    assert "none in memory" in prefixes_line(ServeSettings(kv_ram_mb=0), None)


def test_the_last_line_says_where_and_how_to_stop() -> None:
    line = served_line("nano", "http://127.0.0.1:8000", ServeSettings(parallel=2))
    assert line == "nano is served at http://127.0.0.1:8000 (2 requests at a time); Ctrl+C stops it"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "127.9.9.9"])
def test_a_door_that_only_this_machine_reaches_is_no_matter(host: str) -> None:
    assert open_door_warning(host, asks_for_keys=False) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "fe80::1%eth0"])
def test_an_open_door_without_a_key_is_told(host: str) -> None:
    assert "--api-key-file" in str(open_door_warning(host, asks_for_keys=False))
    assert open_door_warning(host, asks_for_keys=True) is None
