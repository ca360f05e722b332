"""`whitedwarf pull`: models from a hub into a folder."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from whitedwarf.cli.loading import note
from whitedwarf.cli.termination import tidy_termination
from whitedwarf.cli.transfer_progress import TransferProgress
from whitedwarf.errors import UsageError
from whitedwarf.weights.default_link import link_default
from whitedwarf.weights.download import Hub, find_endpoint
from whitedwarf.weights.fetch import Item, check_present, check_space, fetch, gigabytes, make_folder, plan
from whitedwarf.weights.library import model_folder
from whitedwarf.weights.targets import TARGETS, Target, check_different, choose, parse_target
from whitedwarf.weights.token import find_token


def command(
    target: str | None = None,
    /,
    *,
    to: Path | None = None,
    token: str | None = None,
    revision: str = "main",
    link: bool = False,
    no_link: bool = False,
    check: bool = False,
    dry_run: bool = False,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Fetch a model. What was cut off is continued, and every byte is checked before the file gets its name.

    Parameters
    ----------
    target
        q2-imatrix, q2-q4-imatrix, q4-imatrix, pro-q2-imatrix, pro-q4-layers00-30, pro-q4-layers31-output,
        pro-q4-split, mtp; or org/repo/file, org/repo/PATTERN, or org/repo with a single model. Without: lists these.
    to
        The folder for the files. Default: DS4_GGUF_DIR, else ./gguf.
    token
        The hub's access token, for private models. Default: HF_TOKEN, else the one of `hf auth login`.
    revision
        Branch, tag or commit of the repository.
    link
        Make ./ds4flash.gguf point to the model also for targets that are not Flash or PRO q2.
    no_link
        Leave ./ds4flash.gguf as it is.
    check
        Read files that are there already, and compare all their bytes with the hub's digest.
    dry_run
        Say what would be fetched, and whether it fits.
    as_json
        A JSON object about the files, on stdout.
    """
    if target is None:
        print("\n".join(f"{name:<24}{known.about}" for name, known in TARGETS.items()))
        return
    if link and no_link:
        raise UsageError("--link and --no-link contradict each other; give one of them")
    wanted = parse_target(target)
    folder = (to or model_folder()).expanduser()
    hub = Hub(find_endpoint(), find_token(token))
    items = _plan(hub, wanted, revision, folder)
    check_space(items, folder)
    if not dry_run:
        make_folder(folder)
        _have(hub, items, must_check=check)
    _report(items, as_json=as_json, is_done=not dry_run)
    if not dry_run:
        _link(wanted, items, link=link, no_link=no_link)


def _plan(hub: Hub, wanted: Target, revision: str, folder: Path) -> tuple[Item, ...]:
    paths = choose(wanted, hub.list_files(wanted.repo, revision))
    check_different(paths)
    items = plan([hub.describe(wanted.repo, revision, path) for path in paths], folder)
    for item in items:
        note(_item_text(item))
    return items


def _item_text(item: Item) -> str:
    if item.is_present:
        return f"{item.path} is there already, {gigabytes(item.size_bytes)}"
    rest = f", of which {gigabytes(item.part_bytes)} are there" if item.part_bytes else ""
    return f"{item.path}: {gigabytes(item.size_bytes)} from {item.remote.repo}{rest}"


def _have(hub: Hub, items: Sequence[Item], *, must_check: bool) -> None:
    busy = [item for item in items if must_check or not item.is_present]
    progress = TransferProgress(sum(item.size_bytes for item in busy))
    before = 0

    def step(doing: str, done_bytes: int) -> None:
        progress.show(doing, before + done_bytes)

    try:
        with tidy_termination():
            for item in busy:
                if item.is_present:
                    check_present(item, step)
                else:
                    fetch(hub, item, step, progress.say)
                before += item.size_bytes
    finally:
        progress.finish()


def _report(items: Sequence[Item], *, as_json: bool, is_done: bool) -> None:
    if as_json:
        print(json.dumps({"is_done": is_done, "files": [_item_json(item) for item in items]}, ensure_ascii=False))
    elif is_done:
        print("\n".join(str(item.path) for item in items))


def _item_json(item: Item) -> dict[str, str | int | bool]:
    remote = item.remote
    return {
        "path": str(item.path),
        "size_bytes": item.size_bytes,
        "missing_bytes": item.missing_bytes,
        "was_present": item.is_present,
        "digest": remote.identity.digest,
        "repo": remote.repo,
        "commit": remote.commit,
        "file": remote.path,
    }


def _link(wanted: Target, items: Sequence[Item], *, link: bool, no_link: bool) -> None:
    if (wanted.becomes_default and not no_link) or link:
        note(link_default(items[0].path).text)
    elif wanted.about and not wanted.becomes_default:
        note(wanted.about)
