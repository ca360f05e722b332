"""Which graphics cards this machine seems to have, and whether a library is here that can use them: files are looked
for, nothing heavy is imported. Importing torch takes seconds, so nobody does it to learn that there is no card.
"""

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

Kind = Literal["cuda", "rocm", "mlx"]
KINDS: tuple[Kind, ...] = ("cuda", "rocm", "mlx")
HARDWARE: Mapping[Kind, str] = {"cuda": "NVIDIA card", "rocm": "AMD card", "mlx": "Apple GPU"}
_HIDING: Mapping[Kind, tuple[str, ...]] = {
    "cuda": ("CUDA_VISIBLE_DEVICES",),
    "rocm": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    "mlx": (),
}
_BUILD = re.compile(r"^(?P<name>__version__|cuda|hip)\b[^=]*=\s*(?P<value>None|'[^']*'|\"[^\"]*\")", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Usable:
    """Whether a kind of device can be used, as far as files tell, and the sentence about it."""

    is_usable: bool
    reason: str


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """What torch/version.py says of the PyTorch that would be imported."""

    version: str
    cuda: str | None
    hip: str | None


@dataclass(frozen=True, slots=True)
class Host:
    """Where to look: the machine's files and names, and the environment."""

    root: Path = Path("/")
    system: str = platform.system()
    machine: str = platform.machine()
    environment: Mapping[str, str] | None = None

    def hardware(self, kind: Kind) -> str | None:
        """What of this kind is here, as a path or a name; None if nothing is."""
        if self._is_hidden(kind):
            return None
        match kind:
            case "cuda":
                return self._nvidia()
            case "rocm":
                return self._amd()
            case "mlx":
                return "Metal" if (self.system, self.machine) == ("Darwin", "arm64") else None

    def hidden_by(self, kind: Kind) -> str | None:
        """The environment variable that hides all cards of a kind."""
        environment = os.environ if self.environment is None else self.environment
        return next((name for name in _HIDING[kind] if environment.get(name, "0").strip() in ("", "-1")), None)

    def _is_hidden(self, kind: Kind) -> bool:
        return self.hidden_by(kind) is not None

    def _nvidia(self) -> str | None:
        places = [*sorted((self.root / "dev").glob("nvidia[0-9]*")), *self._windows_driver()]
        return f"/{places[0].relative_to(self.root)}" if places else None

    def _windows_driver(self) -> list[Path]:
        """Under WSL the card is behind /dev/dxg; on Windows only the driver's library shows."""
        wsl, windows = self.root / "usr/lib/wsl/lib/libcuda.so.1", self.root / "Windows/System32/nvcuda.dll"
        found = [wsl] if (self.root / "dev/dxg").exists() and wsl.exists() else []
        return [*found, windows] if windows.exists() else found

    def _amd(self) -> str | None:
        """A node of the kernel's list that computes; processors are on it too, without such units."""
        if not (self.root / "dev/kfd").exists():
            return None
        nodes = sorted((self.root / "sys/class/kfd/kfd/topology/nodes").glob("*/properties"))
        return "/dev/kfd" if any(_has_simds(node) for node in nodes) else None


def usable(kind: Kind, host: Host | None = None, build: TorchBuild | None = None) -> Usable:
    """Whether it is worth importing the library of this kind. `build`: the PyTorch here, if it is known already."""
    host = Host() if host is None else host
    name, found = HARDWARE[kind], host.hardware(kind)
    if found is None:
        hidden = host.hidden_by(kind)
        return Usable(False, f"no {name} here" if hidden is None else f"{hidden} hides every {name}")
    if kind == "mlx":
        if find_spec("mlx") is None:
            return Usable(False, f"an {name} is here but MLX is not: pip install 'whitedwarf[mlx]'")
        return Usable(True, f"an {name} is here, and MLX")
    build = torch_build() if build is None else build
    if build is None:
        return Usable(False, f"an {name} is here ({found}) but PyTorch is not: pip install 'whitedwarf[{kind}]'")
    if (build.cuda if kind == "cuda" else build.hip) is None:
        built_for = "CUDA" if kind == "cuda" else "ROCm"
        return Usable(
            False,
            f"an {name} is here ({found}) but PyTorch {build.version} was built without {built_for}: "
            f"install the build for it from https://pytorch.org/get-started/locally",
        )
    return Usable(True, f"an {name} is here ({found}), and PyTorch {build.version}")


def torch_build() -> TorchBuild | None:
    """The PyTorch that would be imported, read from its files; None where there is none."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    said = {found["name"]: found["value"].strip("'\"") for found in _BUILD.finditer(text)}
    return TorchBuild(said.get("__version__", "unknown"), _named(said.get("cuda")), _named(said.get("hip")))


def first_usable(host: Host | None = None) -> Kind | None:
    """The kind of device that `auto` takes, before anybody has asked its library."""
    return next((kind for kind in KINDS if usable(kind, host).is_usable), None)


def _has_simds(properties: Path) -> bool:
    try:
        lines = dict(line.split(maxsplit=1) for line in properties.read_text().splitlines() if " " in line)
    except OSError:
        return False
    return lines.get("simd_count", "0").strip() != "0"


def _named(value: str | None) -> str | None:
    return None if value in (None, "None", "") else value
