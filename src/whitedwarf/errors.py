"""The whole error tree.

    WhitedwarfError                 anything that is not a bug of ours; its text is a complete message for the user
    ├── UsageError                  the arguments are wrong (exit code 2)
    ├── FileFormatError             a file is corrupt, truncated or not what it says it is
    │   └── NotDeepSeekV4Error      a healthy file of some other model or of an unsupported variant
    ├── ConversationError           a conversation contradicts itself or holds what is no JSON (also a ValueError)
    ├── RequestError                an API request that cannot be answered: HTTP 400 (kinds: protocol/failures.py)
    │   └── ImageError              an image that cannot be had or read, or breaks a limit
    ├── ContextOverflowError        the prompt does not fit in the context
    ├── ModelReadError              the model's file could not be read on, or is no longer what was opened
    ├── OutOfMemoryError            too little memory: needed, available, what to do
    ├── DownloadError               a model could not be fetched; what has arrived is kept
    ├── EndpointError               a model behind a URL did not answer as such endpoints do
    ├── BackendError                the asked backend is not here or failed
    ├── ClusterError                machines that hold parts of a model could not do it together
    ├── EngineClosedError           the engine is shutting down or died
    ├── EngineBusyError             too many requests wait already
    └── Cancelled                   the request was cancelled by its owner

A message says what was expected, what came and what to do. The command line prints it as one line and exits 1 (2 for
UsageError).
"""


class WhitedwarfError(Exception):
    """Base of everything the user may see as a message instead of a traceback."""


class UsageError(WhitedwarfError):
    """The arguments are wrong: exit code 2."""


class FileFormatError(WhitedwarfError):
    """A file is corrupt, truncated, or not what its name or header says."""


class NotDeepSeekV4Error(FileFormatError):
    """A healthy file, but not a DeepSeek V4 model that this engine runs."""


class ConversationError(WhitedwarfError, ValueError):
    """A conversation that contradicts itself, or a part of it that is no JSON value."""


class RequestError(WhitedwarfError):
    """An API request that cannot be answered; every dialect tells it as HTTP 400."""

    status = 400


class ImageError(RequestError):
    """An image in a request that cannot be had, cannot be read, or breaks a limit."""


class ContextOverflowError(WhitedwarfError):
    """The prompt (and what is to be generated) does not fit in the context."""


class ModelReadError(WhitedwarfError):
    """Weights that are read while the model runs did not come as the file was opened: the disk, or a changed file."""


class OutOfMemoryError(WhitedwarfError):
    """Too little memory, seen before anything is loaded or met on the way."""


class DownloadError(WhitedwarfError):
    """A model could not be fetched: the network, the hub, the disk, or bytes that are not those promised."""


class EndpointError(WhitedwarfError):
    """A model behind a URL did not answer, refused, or said something else than such endpoints do."""


class BackendError(WhitedwarfError):
    """The asked backend is not available here, or failed."""


class ClusterError(WhitedwarfError):
    """The machines of a cluster could not do it: one is missing, failed, or does not fit the others."""


class EngineClosedError(WhitedwarfError):
    """The engine is shutting down, or its thread died."""


class EngineBusyError(WhitedwarfError):
    """As many requests are waiting as the engine accepts; nothing was queued, try again later."""


class Cancelled(WhitedwarfError):  # noqa: N818  (not a failure: the owner asked for it)
    """The request was cancelled by its owner."""
