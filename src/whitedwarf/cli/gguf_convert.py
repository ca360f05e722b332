"""`whitedwarf gguf convert`: DeepSeek's released safetensors to GGUF."""

import json
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from whitedwarf.cli.loading import note
from whitedwarf.cli.progress import ByteProgress
from whitedwarf.cli.termination import tidy_termination
from whitedwarf.config import POSITIVE
from whitedwarf.gguf.convert import ConvertOptions, ConvertProgress, ConvertReport, convert


def command(
    folder: Path,
    out: Path,
    /,
    *,
    outtype: Literal["native", "f16", "f32"] = "native",
    split: Annotated[int, Parameter(validator=POSITIVE)] = 1,
    name: str | None = None,
    no_mtp: bool = False,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Convert a DeepSeek V4 checkpoint to GGUF, tensor by tensor.

    Parameters
    ----------
    folder
        Folder with config.json, tokenizer.json and the safetensors files.
    out
        The GGUF file to write.
    outtype
        native keeps FP4 experts bit for bit (MXFP4) and stores FP8 as Q8_0; f16 and f32 widen everything.
    split
        Number of files.
    name
        The model's name in the file. Default: the folder's.
    no_mtp
        Leave the MTP block out: llama.cpp refuses a main model that holds one.
    as_json
        A JSON object about what was made, on stdout.
    """
    options = ConvertOptions(outtype=outtype, include_mtp=False if no_mtp else None, name=name, num_shards=split)
    report = _convert(folder, out, options)
    for line in report.notes:
        note(line)
    if as_json:
        made = {"paths": list(map(str, report.paths)), "tensors": report.num_tensors, "size_bytes": report.size_bytes}
        print(json.dumps(made | {"notes": report.notes}))


def _convert(folder: Path, out: Path, options: ConvertOptions) -> ConvertReport:
    progress = ByteProgress("writing")

    def show(event: ConvertProgress) -> None:
        progress.show(event.written_bytes, event.total_bytes)

    try:
        with tidy_termination():
            return convert(folder, out, options, show)
    finally:
        progress.finish()
