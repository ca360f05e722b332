"""The profile of a model's experts in the user's cache folder: read at the start, written now and then and at the end.

Promises that nothing about it ends a program: what cannot be read or written costs the profile and nothing else. The
model is known by its tensors and by the beginnings of its routers, wherever its file lies. One thread counts picks,
another writes them down; a count that is missed comes with the next time.
"""

import contextlib
import hashlib
import os
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.names import canonical_name
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.weights.expert_cache import ExpertCache
from whitedwarf.weights.expert_profile import load_profile, save_picks

EVERY_S = 300.0
_SAMPLE_BYTES = 4096
_ROUTER = "ffn_gate_inp.weight"


def profile_path(model: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where this model's profile lies; None where nobody has a home. The XDG specification ignores relative folders."""
    root = environment.get("XDG_CACHE_HOME", "")
    try:
        folder = Path(root) if root.startswith("/") else Path.home() / ".cache"
    except RuntimeError:
        return None
    return folder / "whitedwarf" / "experts" / f"{model}.json"


def model_fingerprint(gguf: GgufFile) -> str:
    """32 hexadecimal digits of the tensors' names, types and shapes, and of how the routers begin."""
    digest = hashlib.sha256()
    for name, info in sorted(gguf.tensors.items()):
        digest.update(f"\n{name} {info.type.name} {info.shape}\n".encode())
        if canonical_name(name).endswith(_ROUTER):
            digest.update(gguf.data(name)[:_SAMPLE_BYTES].tobytes())
    return digest.hexdigest()[:32]


class ProfileKeeper:
    """Keeps the picks of a cache in a file: `begin` reads them, then they are written until the cache is gone."""

    def __init__(self, path: Path, model: str) -> None:
        self.path = path
        self._model = model
        self._picks: npt.NDArray[np.int64] | None = None  # of the cache, which may go while this stays
        self._is_over = threading.Event()
        self._written = 0

    def begin(self, cache: ExpertCache, every_s: float = EVERY_S) -> str | None:
        """Warm the cache's experts, and write its picks every so often, and when the cache or the program ends.

        In words, why there is a file that is none of this model's; it is left as it is.
        """
        try:
            load_profile(self.path, self._model, cache)
        except FileNotFoundError:
            pass
        except (FileFormatError, OSError) as error:
            return str(error)
        self._picks = cache.picks
        self._written = int(self._picks.sum())
        threading.Thread(target=self._keep, args=(every_s,), name="expert-profile", daemon=True).start()
        weakref.finalize(cache, self.close)
        return None

    def write(self) -> None:
        """Now, if anything was picked since."""
        if self._picks is None:
            return
        total = int(self._picks.sum())
        if total == self._written:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            save_picks(self.path, self._model, self._picks)
            self._written = total

    def close(self) -> None:
        """The last time."""
        if not self._is_over.is_set():
            self._is_over.set()
            self.write()

    def _keep(self, every_s: float) -> None:
        while not self._is_over.wait(every_s):
            self.write()
