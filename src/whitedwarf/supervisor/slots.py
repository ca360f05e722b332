"""What llama-server has read, kept on disk while it does not run (`--slot-save-path`): a long prompt is not read twice.

Promises: a state goes back only to the same model file, arguments and build; whatever goes wrong is logged and costs
only the reading; it takes a bounded time and a bounded space. `whitedwarf serve` does all this itself (--kv-disk-dir).
"""

import contextlib
import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path

from whitedwarf.supervisor import arguments as given
from whitedwarf.supervisor.config import Backend, ManagedModel
from whitedwarf.supervisor.failures import UpstreamError
from whitedwarf.supervisor.upstream import Address, Headers, ask

SAVE_S = 20.0
RESTORE_S = 30.0
MOST_BYTES = 16 << 30
"""Of all states in a folder; the oldest go first."""
_LOOK_S = 1.0
_OK = 200
_PREFIX = "whitedwarf-"
_PORT_FLAGS = ("--port", "--host")
_log = logging.getLogger(__name__)


class Slots:
    """Those of one server that is up."""

    def __init__(
        self, model: ManagedModel, argv: Sequence[str], build: str, address: Address, headers: Headers
    ) -> None:
        self._address = address
        self._headers = headers
        self._folder = slot_folder(model, argv)
        self._name = state_name(model, argv, build)
        self._key = model.key

    async def restore(self) -> bool:
        """What was saved last, if it was of the same; whether there was something and it was taken."""
        if self._folder is None or not (self._folder / self._name).is_file():
            return False
        return await self._do("restore", 0, self._name, RESTORE_S)

    async def save(self) -> bool:
        """The slot that has read most, unless one is still busy; whether it was saved. Nobody else may be asking."""
        if self._folder is None:
            return False
        slot = await self._fullest()
        if slot is None:
            return False
        fresh = self._name + ".new"
        self._make_folder(self._folder)
        try:
            if not await self._do("save", slot, fresh, SAVE_S):
                return False
            (self._folder / fresh).replace(self._folder / self._name)
        except OSError as error:
            _log.warning("slot state not kept model=%s error=%s", self._key, error)
            return False
        finally:
            with contextlib.suppress(OSError):
                (self._folder / fresh).unlink(missing_ok=True)
        prune(self._folder, MOST_BYTES)
        return True

    async def _do(self, action: str, slot: int, name: str, timeout_s: float) -> bool:
        target, body = f"/slots/{slot}?action={action}", json.dumps({"filename": name}).encode()
        headers = (*self._headers, (b"Content-Type", b"application/json"))
        try:
            answer = await ask(self._address, "POST", target, headers, body, timeout_s=timeout_s)
        except UpstreamError as error:
            _log.warning("slot %s failed model=%s error=%s", action, self._key, error)
            return False
        if answer.status != _OK:
            said = answer.body[:200].decode("utf-8", "replace")
            _log.warning("slot %s refused model=%s status=%d said=%s", action, self._key, answer.status, said)
        return answer.status == _OK

    async def _fullest(self) -> int | None:
        """None where something is being read or written, which would be waited for, or the server does not say."""
        try:
            answer = await ask(self._address, "GET", "/slots", self._headers, timeout_s=_LOOK_S)
            slots = json.loads(answer.body) if answer.status == _OK else None
        except (UpstreamError, ValueError, RecursionError):
            return None
        return fullest(slots) if isinstance(slots, list) else None

    def _make_folder(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def fullest(slots: Sequence[object]) -> int | None:
    """Of the list that GET /slots gives: the slot that has most tokens, None if one is busy. Pure."""
    best, most = 0, -1
    for slot in slots:
        if not isinstance(slot, dict):
            continue
        if slot.get("is_processing"):
            return None
        number, tokens = slot.get("id"), slot.get("n_prompt_tokens") or 0
        if type(number) is int and type(tokens) is int and tokens > most:
            best, most = number, tokens
    return best


def slot_folder(model: ManagedModel, argv: Sequence[str]) -> Path | None:
    """Where its states go; None where it keeps none."""
    if model.backend is not Backend.LLAMA_SERVER or not model.keeps_state:
        return None
    folder = given.option_of(argv, given.SLOTS)
    return None if folder is None else Path(folder)


def state_name(model: ManagedModel, argv: Sequence[str], build: str) -> str:
    """The same exactly if a state of the one can go on in the other: arguments, the model's file, the build."""
    try:
        stat = model.path.stat()
        file = [str(model.path.absolute()), stat.st_size, stat.st_mtime_ns]
    except OSError:
        file = [str(model.path.absolute())]
    what = json.dumps([_without_ports(argv), file, build])
    return f"{_PREFIX}{hashlib.sha256(what.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.slot"


def _without_ports(arguments: Sequence[str]) -> list[str]:
    kept, skips = [], False
    for word in arguments:
        if skips:
            skips = False
        elif word in _PORT_FLAGS:
            skips = True
        elif not word.startswith(tuple(flag + "=" for flag in _PORT_FLAGS)):
            kept.append(word)
    return kept


def prune(folder: Path, most_bytes: int) -> None:
    """Remove the oldest states until the others fit; files of others stay."""
    states = []
    for path in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            states.append((path.stat().st_mtime_ns, path.stat().st_size, path))
    total = sum(size for _, size, _ in states)
    for _, size, path in sorted(states)[:-1]:  # the newest stays, however large
        if total <= most_bytes:
            break
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size
