"""Builds the native module beside the check, where the tools are there: it makes a quicker truth than numpy."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def start_build(folder: Path) -> subprocess.Popen[bytes] | None:
    """In the background; None where the module is there already, or cannot be built."""
    if list((ROOT / "src" / "whitedwarf").glob("_native*")) and _is_importable():
        return None
    tools = shutil.which("cmake"), shutil.which("ninja"), importlib.util.find_spec("nanobind")
    if not all(tools):
        return None
    configure = ["cmake", "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"]
    build = ["cmake", "--build", str(folder), "-j", "6"]
    command = f"{_quoted(configure)} && {_quoted(build)}"
    log = (folder.parent / "native.log").open("wb")
    return subprocess.Popen(["nice", "sh", "-c", command], stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def use_built(folder: Path) -> None:
    """Let the package find the module if it has been built by now."""
    if list(folder.glob("_native*.so")):
        import whitedwarf

        whitedwarf.__path__.append(str(folder))


def _is_importable() -> bool:
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); import whitedwarf._native"
    return (
        subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ, check=False).returncode == 0
    )


def _quoted(words: list[str]) -> str:
    return " ".join(f"'{word}'" for word in words)
