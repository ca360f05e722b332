"""Why a request gets no answer of a model; app.py gives each its form (spec/supervisor.md 2.12)."""

from whitedwarf.errors import WhitedwarfError


class UpstreamError(WhitedwarfError):
    """The server behind us did not do its part."""


class UpstreamDownError(UpstreamError):
    """Not one byte of an answer came: whoever asked may ask again."""


class UpstreamCutError(UpstreamError):
    """An answer began and was cut off: nobody may take it for whole."""


class StartFailedError(WhitedwarfError):
    """A model did not come up. `is_permanent`: starting again would fail again. `log_tail`: its last words.

    `retry_after_s`: for how long the same error comes without another start; only the desk knows (spec 2.13).
    """

    def __init__(
        self, message: str, *, is_permanent: bool, log_tail: tuple[str, ...] = (), retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.is_permanent = is_permanent
        self.log_tail = log_tail
        self.retry_after_s = retry_after_s


class QueueFullError(WhitedwarfError):
    """As many requests wait for this model as may."""


class WaitedTooLongError(WhitedwarfError):
    """The place this model needs was not given up in time."""


class UnloadedError(WhitedwarfError):
    """The model was unloaded by order while this request waited for it, or the supervisor ends."""
