"""What a server tells its owner when it starts: the model, where beginnings of prompts go, who may come, how to stop.

Pure: lines of text from what was decided elsewhere.
"""

from ipaddress import ip_address

from whitedwarf.config import ServeSettings
from whitedwarf.engine.memory import size_text
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.kvstore.stats import StoreStats

_MIB = 1 << 20


def model_line(name: str, gguf: GgufFile) -> str:
    """Which model, how large, from where."""
    shards = f" and {len(gguf.paths) - 1} more" if len(gguf.paths) > 1 else ""
    return f"model {name}, {size_text(sum(gguf.shard_bytes))}: {gguf.paths[0]}{shards}"


def prefixes_line(serve: ServeSettings, disk: StoreStats | None) -> str:
    """How much of earlier prompts is kept, and where."""
    memory = f"up to {size_text(serve.kv_ram_mb * _MIB)} in memory" if serve.kv_ram_mb else "none in memory"
    if disk is None:
        return f"beginnings of prompts: {memory}, none on disk (--kv-disk-dir FOLDER keeps them over a restart)"
    held = f"{disk.files} files, {size_text(disk.bytes)} now"
    return f"beginnings of prompts: {memory}, up to {size_text(disk.budget_bytes)} in {serve.kv_disk_dir} ({held})"


def served_line(model_id: str, address: str, serve: ServeSettings) -> str:
    """The last one: from here on requests are answered."""
    return f"{model_id} is served at {address} ({serve.parallel} requests at a time); Ctrl+C stops it"


def open_door_warning(host: str, *, asks_for_keys: bool) -> str | None:
    """Of an address that others can reach without a key; `host` is the one that is listened on, in digits."""
    if asks_for_keys or ip_address(host.partition("%")[0]).is_loopback:
        return None
    return f"{host}: whoever reaches this machine may use the server; --api-key-file FILE asks for a key"
