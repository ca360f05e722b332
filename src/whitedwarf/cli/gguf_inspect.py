"""`whitedwarf gguf inspect`: what a model file is; reads no tensor data."""

import json
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.gguf.inspect import render, summary
from whitedwarf.gguf.reader import open_gguf


def command(file: str, /, *, as_json: Annotated[bool, Parameter(name="--json")] = False) -> None:
    """Show a model file's name, architecture, sizes and tensor types.

    Parameters
    ----------
    file
        GGUF file, or any shard of one.
    as_json
        One JSON object instead of text.
    """
    with open_gguf(file) as gguf:
        found = summary(gguf)
    print(json.dumps(found.to_json(), ensure_ascii=False) if as_json else render(found))
