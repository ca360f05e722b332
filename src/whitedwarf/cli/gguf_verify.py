"""`whitedwarf gguf verify`: structure, architecture, and every value of a model file."""

import json
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.cli.loading import open_tokenizer
from whitedwarf.cli.progress import ByteProgress
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.gguf.verify import Finding, verify
from whitedwarf.weights.checked import check_model


def command(file: str, /, *, as_json: Annotated[bool, Parameter(name="--json")] = False) -> int:
    """Check a model file: that it is a complete DeepSeek V4, and that all of its numbers are numbers.

    Exit code 1 if anything is wrong.

    Parameters
    ----------
    file
        GGUF file, or any shard of one.
    as_json
        One JSON object with all findings.
    """
    with open_gguf(file) as gguf:
        open_tokenizer(gguf, check_model(gguf).hp.vocab_size)
        findings = _check_values(gguf)
    is_sound = all(finding.severity != "error" for finding in findings)
    if as_json:
        print(json.dumps({"file": file, "is_sound": is_sound, "findings": [asdict(finding) for finding in findings]}))
    else:
        print("\n".join([*map(str, findings), f"{file}: {'sound' if is_sound else 'NOT sound'}"]))
    return 0 if is_sound else 1


def _check_values(gguf: GgufFile) -> list[Finding]:
    progress = ByteProgress("checking")
    try:
        return verify(gguf, progress.show)
    finally:
        progress.finish()
