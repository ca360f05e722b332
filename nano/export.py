"""A run's result as a release folder: `python -m nano.export build/nano/mean.pt build/nano/release`.

`scripts/make_nano.py --source build/nano/release` makes the packaged files of it.
"""

import argparse
from pathlib import Path

import torch

from nano.checkpoint import read_checkpoint, save_release
from nano.shape import Shape


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a checkpoint as DeepSeek ships them.")
    parser.add_argument("source", type=Path, help="a run's .pt, a .gguf, or a release folder")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--float32", action="store_true", help="keep matrices as they are instead of bfloat16")
    arguments = parser.parse_args()
    state = read_checkpoint(arguments.source).state
    dtype = torch.float32 if arguments.float32 else torch.bfloat16
    size = save_release(arguments.folder, Shape(), state, dtype=dtype)
    print(f"{arguments.folder}: {len(state)} tensors, {size:,} bytes")


if __name__ == "__main__":
    main()
