"""What a machine seems to have, from its files: without importing what would take seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

from whitedwarf.ops import gpus
from whitedwarf.ops.gpus import KINDS, Host, TorchBuild, first_usable, torch_build, usable

CPU_BUILD = TorchBuild("2.13.0+cpu", None, None)
CUDA_BUILD = TorchBuild("2.13.0+cu130", "13.0", None)
ROCM_BUILD = TorchBuild("2.13.0+rocm7", None, "7.0")


def host(root: Path, system: str = "Linux", machine: str = "x86_64", **environment: str) -> Host:
    return Host(root, system, machine, environment)


def put(root: Path, *paths: str, text: str = "") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def nvidia(root: Path) -> None:
    put(root, "dev/nvidiactl", "dev/nvidia0", "dev/nvidia1", "dev/nvidia-uvm")


def amd(root: Path, simds: int = 80) -> None:
    put(root, "dev/kfd")
    put(root, "sys/class/kfd/kfd/topology/nodes/0/properties", text="cpu_cores_count 16\nsimd_count 0\n")
    put(root, "sys/class/kfd/kfd/topology/nodes/1/properties", text=f"cpu_cores_count 0\nsimd_count {simds}\n")


def test_a_machine_without_cards_has_none(tmp_path: Path) -> None:
    assert first_usable(host(tmp_path)) is None
    assert [usable(kind, host(tmp_path)).reason for kind in KINDS] == [
        "no NVIDIA card here",
        "no AMD card here",
        "no Apple GPU here",
    ]


def test_an_nvidia_card_is_seen_by_its_device_file(tmp_path: Path) -> None:
    nvidia(tmp_path)
    assert host(tmp_path).hardware("cuda") == "/dev/nvidia0"
    assert usable("cuda", host(tmp_path), CUDA_BUILD).is_usable


def test_the_driver_alone_is_no_card(tmp_path: Path) -> None:
    put(tmp_path, "dev/nvidiactl", "dev/nvidia-uvm")
    assert host(tmp_path).hardware("cuda") is None


def test_under_windows_the_driver_s_library_shows(tmp_path: Path) -> None:
    put(tmp_path, "usr/lib/wsl/lib/libcuda.so.1")
    assert host(tmp_path).hardware("cuda") is None
    put(tmp_path, "dev/dxg")
    assert host(tmp_path).hardware("cuda") == "/usr/lib/wsl/lib/libcuda.so.1"


def test_an_amd_card_is_a_node_that_computes(tmp_path: Path) -> None:
    amd(tmp_path, simds=0)
    assert host(tmp_path).hardware("rocm") is None
    amd(tmp_path)
    assert host(tmp_path).hardware("rocm") == "/dev/kfd"
    assert usable("rocm", host(tmp_path), ROCM_BUILD).is_usable
    assert not usable("cuda", host(tmp_path), ROCM_BUILD).is_usable


def test_a_mac_with_apple_s_processor_has_a_gpu(tmp_path: Path) -> None:
    assert host(tmp_path, "Darwin", "arm64").hardware("mlx") == "Metal"
    assert host(tmp_path, "Darwin", "x86_64").hardware("mlx") is None


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_cards_may_be_hidden(tmp_path: Path, hidden: str) -> None:
    nvidia(tmp_path)
    found = usable("cuda", host(tmp_path, CUDA_VISIBLE_DEVICES=hidden), CUDA_BUILD)
    assert not found.is_usable
    assert found.reason == "CUDA_VISIBLE_DEVICES hides every NVIDIA card"
    assert usable("cuda", host(tmp_path, CUDA_VISIBLE_DEVICES="1"), CUDA_BUILD).is_usable


def test_a_card_without_pytorch_is_told_how_to_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia(tmp_path)
    monkeypatch.setattr(gpus, "find_spec", lambda name: None)
    found = usable("cuda", host(tmp_path))
    assert not found.is_usable
    assert found.reason == ("an NVIDIA card is here (/dev/nvidia0) but PyTorch is not: pip install 'whitedwarf[cuda]'")
    assert usable("mlx", host(tmp_path, "Darwin", "arm64")).reason.endswith("pip install 'whitedwarf[mlx]'")


def test_a_pytorch_for_something_else_is_told(tmp_path: Path) -> None:
    nvidia(tmp_path)
    amd(tmp_path)
    assert "PyTorch 2.13.0+cpu was built without CUDA" in usable("cuda", host(tmp_path), CPU_BUILD).reason
    assert "built without ROCm" in usable("rocm", host(tmp_path), CUDA_BUILD).reason


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", CUDA_BUILD),
        ('__version__ = "2.13.0+cpu"\ncuda = None\nhip = None\n', CPU_BUILD),
        ("__version__ = '2.13.0+rocm7'\ncuda: Optional[str] = None\nhip: Optional[str] = '7.0'\n", ROCM_BUILD),
        ("nothing of the kind", TorchBuild("unknown", None, None)),
    ],
)
def test_the_build_is_read_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, build: TorchBuild
) -> None:
    put(tmp_path, "torch/version.py", text=text)
    put(tmp_path, "torch/__init__.py", text="raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)  # other tests may have imported the real one
    assert torch_build() == build


def test_nobody_imports_torch_to_look() -> None:
    code = (
        "import sys; from whitedwarf.ops.gpus import *; first_usable(); torch_build(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
