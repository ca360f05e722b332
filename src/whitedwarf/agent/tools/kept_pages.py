"""Texts that are too long to be told whole: kept in a file, told by their beginning."""

from whitedwarf.agent.tool import ToolError
from whitedwarf.agent.tools.private_folder import PrivateFolder

WHOLE_LINES, WHOLE_BYTES = 100, 8 << 10


class KeptPages:
    """Puts long texts into a folder of the session."""

    def __init__(self, folder: PrivateFolder) -> None:
        self._folder = folder
        self._count = 0

    def told(self, head: str, text: str) -> str:
        """All of it below the head if it is short, else its beginning and the file that has all."""
        lines = text.split("\n")
        if len(lines) <= WHOLE_LINES + 1 and len(text.encode("utf-8", "replace")) <= WHOLE_BYTES:
            return f"{head}\n{text}"
        self._count += 1
        try:
            path = self._folder.path / f"page-{self._count}.md"
            path.touch(0o600, exist_ok=False)
            path.write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            raise ToolError(f"the page is long and cannot be kept: {error.strerror}") from error
        begin = "\n".join(lines[:WHOLE_LINES]).encode("utf-8", "replace")[:WHOLE_BYTES].decode("utf-8", "ignore")
        at = begin.count("\n") + 1
        return f"{head}\n{begin}\n[{len(lines)} lines, all in {path}; read it with start_line {at} to go on]"
