"""Stop before set-up with one sentence when this machine cannot build the native kernels."""

import os
import shutil
import sys


def main() -> int:
    if sys.version_info < (3, 11):  # noqa: UP036  (run by whatever python3 there is, before the environment)
        print(f"whitedwarf needs Python 3.11 or newer; this is {sys.version.split()[0]}.", file=sys.stderr)
        return 1
    compilers = [os.environ.get("CXX", ""), "c++", "g++", "clang++"]
    if not any(name and shutil.which(name) for name in compilers):
        print(
            "whitedwarf builds its kernels here and found no C++ compiler: install one "
            "(Debian/Ubuntu: sudo apt install g++; Fedora: sudo dnf install gcc-c++; macOS: xcode-select --install) "
            "and run make again.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
