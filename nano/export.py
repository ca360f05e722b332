"""A run's result as a release folder: `python -m nano.export build/nano/mean.pt build/nano/release`.

`--start FILE --share 0.7` goes only that share of the way from where the run began, tensor by tensor: after a short run
it keeps what was known before and most of what was learnt. `scripts/make_nano.py --source build/nano/release` makes the
packaged files.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from nano.checkpoint import read_checkpoint, save_release
from nano.shape import Shape


def blended(start: dict[str, Tensor], end: dict[str, Tensor], share: float) -> dict[str, Tensor]:
    """Each number of `end`, `share` of the way from `start`; tables of integers and what only `end` has are its own."""
    return {
        name: torch.lerp(start[name].float(), value.float(), share)
        if name in start and value.is_floating_point()
        else value
        for name, value in end.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a checkpoint as DeepSeek ships them.")
    parser.add_argument("source", type=Path, help="a run's .pt, a .gguf, or a release folder")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--start", type=Path, help="the checkpoint the run went on from")
    parser.add_argument("--share", type=float, default=0.7, help="how far to go from there to the run's result")
    parser.add_argument("--float32", action="store_true", help="keep matrices as they are instead of bfloat16")
    arguments = parser.parse_args()
    state = read_checkpoint(arguments.source).state
    if arguments.start is not None:
        state = blended(read_checkpoint(arguments.start).state, state, arguments.share)
    dtype = torch.float32 if arguments.float32 else torch.bfloat16
    size = save_release(arguments.folder, Shape(), state, dtype=dtype)
    print(f"{arguments.folder}: {len(state)} tensors, {size:,} bytes")


if __name__ == "__main__":
    main()
