"""The command line of a model's process: what its entry says, and what is known only when it starts.

Pure. Folders that it names have to be there before it is run: `state_folders` says which.
"""

import hashlib
import re
from pathlib import Path

from whitedwarf.supervisor import arguments as given
from whitedwarf.supervisor.config import Backend, ManagedModel

HOST = "127.0.0.1"
_DRAIN_S = 1
"""What our engine gives running answers after SIGTERM. Whoever may still ask is waited for by the supervisor; then the
engine writes its states, which it would not after a second signal."""
_MOST_SLUG = 40


def child_command(model: ManagedModel, port: int, state_folder: Path) -> list[str]:
    """The words to run."""
    fixed = ["--host", HOST, "--port", str(port)]
    if not given.has_option(model.arguments, given.ALIAS):
        fixed += ["--alias", model.alias]
    added = _llama_server if model.backend is Backend.LLAMA_SERVER else _whitedwarf
    return [*model.program, *model.arguments, *fixed, *added(model, state_folder)]


def state_folders(model: ManagedModel, state_folder: Path) -> tuple[Path, ...]:
    """Those of `child_command` that are the supervisor's to make, private to its owner."""
    if not model.keeps_state:
        return ()
    names, folder = (
        (given.SLOTS, slot_folder) if model.backend is Backend.LLAMA_SERVER else (given.OUR_STATE, kv_folder)
    )
    return () if given.has_option(model.arguments, names) else (folder(model.key, state_folder),)


def slot_folder(key: str, state_folder: Path) -> Path:
    """Where llama-server puts the state of its slots."""
    return state_folder / "slots" / folder_name(key)


def kv_folder(key: str, state_folder: Path) -> Path:
    """Where our engine keeps beginnings of prompts."""
    return state_folder / "kv" / folder_name(key)


def folder_name(key: str) -> str:
    """A key as the name of a folder or file: any key, one for each, also where A and a are the same file."""
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", key).strip(".-")[:_MOST_SLUG] or "model"
    return f"{slug}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def _llama_server(model: ManagedModel, state_folder: Path) -> list[str]:
    if not model.keeps_state or given.has_option(model.arguments, given.SLOTS):
        return []
    return ["--slot-save-path", str(slot_folder(model.key, state_folder))]


def _whitedwarf(model: ManagedModel, state_folder: Path) -> list[str]:
    words = [] if given.has_option(model.arguments, given.OUR_DRAIN) else ["--drain-s", str(_DRAIN_S)]
    if model.keeps_state and not given.has_option(model.arguments, given.OUR_STATE):
        words += ["--kv-disk-dir", str(kv_folder(model.key, state_folder))]
    return words
