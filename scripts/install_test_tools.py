"""Install what the tests use beside Python packages, where this machine lets us: a cross compiler and an emulator.

The NEON kernels are compiled for 64-bit Arm and run under qemu. On Debian or Ubuntu as root the packages are installed;
elsewhere one line says what is missing, and those tests skip with the same words.
"""

import os
import shutil
import subprocess
import sys

TOOLS = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}


def main() -> int:
    missing = [package for tool, package in TOOLS.items() if not shutil.which(tool)]
    if not missing:
        return 0
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"tests: the NEON kernels will not be tested here (missing: {', '.join(missing)})", file=sys.stderr)
        return 0
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *missing]
    commands = (["apt-get", "update", "-qq"], install)
    if any(
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode
        for command in commands
    ):
        print(
            f"tests: could not install {', '.join(missing)}; the NEON kernels will not be tested here", file=sys.stderr
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
