"""From a model to the store of its sessions."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from whitedwarf.agent.store import DEFAULT_FOLDER, SessionStore
from whitedwarf.errors import UsageError
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.kvstore.model_facts import arithmetic_of, layout_of, model_id, model_mark, quant_bits
from whitedwarf.kvstore.payload import Layout
from whitedwarf.kvstore.settings import StoreSettings
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.prompt.tokenizer import Tokenizer


def open_store(
    model: DeepSeek,
    gguf: GgufFile,
    tokenizer: Tokenizer,
    *,
    quality: bool = False,
    folder: Path = DEFAULT_FOLDER,
    clock: Callable[[], float] = time.time,
) -> SessionStore:
    """The sessions of this model, under the steering that it is under. UsageError where there can be no folder."""

    def mark_of(model: DeepSeek) -> int:
        return model_mark(gguf, arithmetic_of(model, quality=quality))

    path = _folder(folder)
    settings = StoreSettings(path, layout_of(model), quant_bits(gguf), model_id(model), mark_of(model))
    weights = model_mark(gguf, "weights")  # alone, whatever calculates with them
    with _told(path):
        return SessionStore(settings, tokenizer, model, weights=weights, mark_of=mark_of, clock=clock)


def open_stateless_store(tokenizer: Tokenizer, context_length: int, folder: Path = DEFAULT_FOLDER) -> SessionStore:
    """Where no model is, as behind a script: tokens are kept, states are not."""
    layout = Layout((), 0, 0, tokenizer.vocab_size, 0, context_length)
    path = _folder(folder)
    with _told(path):
        return SessionStore(StoreSettings(path, layout), tokenizer, None)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"sessions cannot be kept in {folder}: {error.strerror or error}; name another folder"
        ) from error


def _folder(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:  # nobody has a home
        raise UsageError(f"{path}: {error}; name a folder for sessions") from error
