"""`whitedwarf gguf verify`: structure, architecture, and every value of a model file."""

import json
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.cli.loading import open_tokenizer
from whitedwarf.cli.machine import available_threads
from whitedwarf.cli.one_line import one_line
from whitedwarf.cli.output_file import check_output, write_text
from whitedwarf.cli.progress import ByteProgress
from whitedwarf.errors import WhitedwarfError
from whitedwarf.gguf.digests import Digests, DigestWatcher, compare, list_text, read_list
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.gguf.statistics import StatisticsWatcher, TensorStatistics, table
from whitedwarf.gguf.verify import Finding, Watcher, verify
from whitedwarf.weights.checked import check_model


@dataclass(frozen=True, slots=True)
class _Found:
    """What a walk over all values found, and the tables that were asked for."""

    findings: list[Finding]
    statistics: list[TensorStatistics] | None = None
    digests: Digests = field(default_factory=dict)

    @property
    def is_sound(self) -> bool:
        return all(finding.severity != "error" for finding in self.findings)


def command(
    file: str,
    /,
    *,
    stats: bool = False,
    write_sha256: Path | None = None,
    check_sha256: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> int:
    """Check a model file: that it is a complete DeepSeek V4, and that all of its numbers are numbers.

    Exit code 1 if anything is wrong.

    Parameters
    ----------
    file
        GGUF file, or any shard of one.
    stats
        A table of each tensor's smallest and largest value, mean, root mean square, share of zeros, and how many
        values are NaN or infinite.
    write_sha256
        Write the digests of header and tensors to this file. They stay true when the model is split or merged.
    check_sha256
        Compare with the digests in this file.
    as_json
        One JSON object with all findings.
    """
    wanted = None if check_sha256 is None else read_list(check_sha256)
    with open_gguf(file) as gguf:
        if write_sha256 is not None:
            check_output(write_sha256, gguf.paths)
        open_tokenizer(gguf, check_model(gguf).hp.vocab_size)
        found = _look(gguf, with_statistics=stats, with_digests=write_sha256 is not None or wanted is not None)
    if wanted is not None:
        found.findings.extend(compare(found.digests, wanted))
    _show(file, found, as_json)
    if write_sha256 is not None:
        _write_digests(file, found, write_sha256)
    return 0 if found.is_sound else 1


def _look(gguf: GgufFile, *, with_statistics: bool, with_digests: bool) -> _Found:
    with ExitStack() as stack:
        statistics = stack.enter_context(StatisticsWatcher(available_threads())) if with_statistics else None
        digests = DigestWatcher() if with_digests else None
        watchers: list[Watcher] = [watcher for watcher in (statistics, digests) if watcher is not None]
        findings = _check_values(gguf, watchers)
        rows = None if statistics is None else statistics.results()
        return _Found(findings, rows, {} if digests is None else digests.digests(gguf))


def _check_values(gguf: GgufFile, watchers: list[Watcher]) -> list[Finding]:
    progress = ByteProgress("checking")
    try:
        return verify(gguf, progress.show, watchers)
    finally:
        progress.finish()


def _show(file: str, found: _Found, as_json: bool) -> None:
    if not as_json:
        lines = [*table(found.statistics or []), ""] if found.statistics is not None else []
        lines += [*map(str, found.findings), f"{file}: {'sound' if found.is_sound else 'NOT sound'}"]
        print("\n".join(map(one_line, lines)))
        return
    document = {"file": file, "is_sound": found.is_sound, "findings": [asdict(finding) for finding in found.findings]}
    if found.statistics is not None:
        document["statistics"] = [asdict(row) for row in found.statistics]
    print(json.dumps(document))


def _write_digests(file: str, found: _Found, path: Path) -> None:
    if not found.is_sound:
        raise WhitedwarfError(f"{path}: not written, because {file} is not sound")
    write_text(path, list_text(found.digests))
