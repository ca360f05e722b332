"""Result files: every one that is kept is read as its instrument meant it, and what is none is told."""

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from whitedwarf.bench.figure_table import END, OPENING, rate_text, renewed, table_text
from whitedwarf.bench.frontiers import Speeds
from whitedwarf.bench.plot import Bar, Curve, Picture, draw_curves, draw_figures, draw_shares
from whitedwarf.bench.results import Figure, Rate, newest, read_result, results_in
from whitedwarf.cli.bench_output import OutputSettings
from whitedwarf.cli.main import main
from whitedwarf.errors import FileFormatError, UsageError, WhitedwarfError

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
CPU = RESULTS / "2026-11-30-xeon-2vcpu-cpu"
NOT_SPEEDS = {"2026-11-30-epyc-2vcpu-recipe", "2026-11-30-xeon-2vcpu-supervisor", "nano_once"}

MACHINE = {"cpu": "A CPU", "threads": 2, "level": "avx2", "time": "2031-02-03T04:05:06+00:00"}


def kept() -> list[Path]:
    """All files with speeds; instruments of other things may keep theirs there, too."""
    paths = []
    for path in sorted(RESULTS.rglob("*.json")):
        with contextlib.suppress(FileFormatError):
            read_result(path)
            paths.append(path)
    return paths


def peers(tokens: int = 512, ours: float | None = 20, theirs: float | None = 10, time: str = "") -> dict[str, Any]:
    """A document of `bench peers` with one point."""

    def side(rate: float | None) -> dict[str, Any] | None:
        return None if rate is None else {"tokens_per_s": rate, "quartiles": [0.95 * rate, 1.05 * rate]}

    point = {"kind": "prefill", "tokens": tokens, "depth": 0, "limit_tokens_per_s": 40}
    machine = MACHINE | ({"time": time} if time else {})
    return {
        "model": "m.gguf",
        "machine": machine,
        "theirs": "llama-bench",
        "points": [point | {"ours": side(ours), "theirs": side(theirs)}],
    }


def spoilt(rate: object) -> dict[str, Any]:
    document = peers()
    document["points"][0]["ours"]["tokens_per_s"] = rate
    return document


def written(folder: Path, name: str, document: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("path", kept(), ids=lambda path: path.stem)
def test_every_file_that_is_kept_is_read(path: Path) -> None:
    result = read_result(path)
    figures = result.figures()
    if result.kind == "kernels":
        assert result.shares()
        return
    assert figures or path.stem.endswith("restore")
    for figure in figures:
        assert 0 < figure.ours.low <= figure.ours.middle <= figure.ours.high
        assert figure.of_limit is None or 0 < figure.of_limit < 1.1
        assert figure.machine.startswith(("Intel", "AMD"))


@pytest.mark.parametrize(
    "path", [path for path in RESULTS.rglob("*.json") if path.stem in NOT_SPEEDS], ids=lambda p: p.stem
)
def test_documents_without_speeds_say_so(path: Path) -> None:
    with pytest.raises(FileFormatError, match="no speeds of a model in it; expected what bench"):
        read_result(path)


def test_a_peers_document_is_read_as_it_is_meant() -> None:
    figures = {figure.name: figure for figure in read_result(CPU / "f4_deep.json").figures()}
    deep = figures["decode 64 at 16384"]
    assert deep.theirs is not None
    assert (round(deep.ours.middle, 2), round(deep.theirs.middle, 2)) == (15.62, 7.57)
    assert deep.ratio == pytest.approx(2.0638, abs=1e-3)
    assert deep.of_limit == pytest.approx(0.86953, abs=1e-4)


def test_a_batch_s_limit_follows_from_its_share(tmp_path: Path) -> None:
    sample = {"sequences": 4, "step_median_s": 0.5, "step_quartiles_s": [0.4, 1.0], "of_bandwidth_limit": 0.25}
    path = written(tmp_path, "b.json", {"model": "m", "machine": MACHINE, "samples": [sample]})
    (figure,) = read_result(path).figures()
    assert figure.ours == Rate(8, 4, 10)
    assert figure.limit == 32


def test_each_figure_is_told_once_beside_a_peer_and_the_newest(tmp_path: Path) -> None:
    documents = [peers(ours=1, time="2031-01-01"), peers(ours=2, time="2031-01-03"), peers(ours=3, time="2031-01-02")]
    documents += [peers(ours=4, theirs=None, time="2031-01-09"), peers(tokens=64, ours=5)]
    results = [read_result(written(tmp_path, f"{i}.json", document)) for i, document in enumerate(documents)]
    found = newest([figure for result in results for figure in result.figures()])
    assert [(figure.name, figure.ours.middle) for figure in found] == [("prefill 512", 2), ("prefill 64", 5)]


def test_a_side_that_failed_is_left_out(tmp_path: Path) -> None:
    assert read_result(written(tmp_path, "a.json", peers(ours=None))).figures() == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "no speeds of a model"),
        ({}, "no speeds of a model"),
        ({"points": [{}], "theirs": "x"}, "no whole document of `bench` (KeyError"),
        (spoilt("fast"), "no whole document of `bench` (ValueError"),
        (spoilt(math.nan), "a rate of nan between"),
        (spoilt(0), "a rate of 0.0 between"),
        ({"samples": [{"sequences": 1}], "machine": MACHINE, "model": "m"}, "no whole document"),
        (
            {"tests": [{"n_prompt": 1, "n_gen": 0, "n_depth": 0, "samples_ts": []}], "machine": MACHINE, "model": "m"},
            "no whole",
        ),
    ],
)
def test_a_damaged_document_is_told(tmp_path: Path, document: object, said: str) -> None:
    path = written(tmp_path, "x.json", document)
    with pytest.raises(FileFormatError) as caught:
        read_result(path).figures()
    assert said in str(caught.value)
    assert "x.json" in str(caught.value)


def test_files_that_are_no_json_are_told(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(FileFormatError, match="not JSON"):
        read_result(tmp_path / "x.json")
    with pytest.raises(UsageError, match="cannot read"):
        read_result(tmp_path / "none.json")
    with pytest.raises(FileFormatError, match="not JSON"):
        results_in([tmp_path])


def test_a_folder_gives_what_has_speeds() -> None:
    found = results_in([CPU], ["peers"])
    assert [result.path.stem for result in found] == [
        "f4",
        "f4_deep",
        "f4_long",
        "f4_tg",
        "f6",
        "f6_tg",
        "m3_prefill",
        "m3_tg",
        "q3",
    ]
    with pytest.raises(UsageError, match="expected documents of serve in"):
        results_in([CPU], ["serve"])


# tables


def test_the_readme_s_table_is_what_the_files_give() -> None:
    """`whitedwarf bench table --into README.md` makes it again."""
    assert main(["bench", "table", "--into", str(ROOT / "README.md"), "--check"]) == 0


def test_rates_have_three_digits_and_their_quartiles() -> None:
    assert rate_text(Rate(1234.5, 1200, 1300)) == "1234 (1200–1300)"
    assert rate_text(Rate(12.345, 11.96, 13)) == "12.3 (12.0–13.0)"
    assert rate_text(Rate(1.234, 1.234, 1.234)) == "1.23"


def test_a_table_tells_machine_day_and_share() -> None:
    figure = Figure(
        "peers", "A CPU", "m", "decode", "decode 64", Rate(8, 7, 9), Rate(4, 4, 4), 10, "2031-02-03T04:05:06"
    )
    text = table_text([figure, Figure("points", "Another", "m", "decode", "decode 64", Rate(8, 8, 8))])
    assert "A CPU, measured 2031-02-03. " in text
    assert "| m | decode 64 | 8.00 (7.00–9.00) | 4.00 | 2.00 | 80 % |" in text
    assert "| m | decode 64 | 8.00 |  |  |  |" in text


def test_only_what_stands_between_the_marks_changes() -> None:
    page = f"before\n{OPENING} a b -->\nold\n{END}\nbetween\n{OPENING} 'c d' -->\n{END} after\n"
    found = renewed(page, lambda words: "/".join(words), "page")
    assert found == f"before\n{OPENING} a b -->\n\na/b\n\n{END}\nbetween\n{OPENING} 'c d' -->\n\nc d\n\n{END} after\n"
    assert renewed(found, lambda words: "/".join(words), "page") == found


@pytest.mark.parametrize(
    "page", ["none", f"{OPENING} a -->\nno end", f"{OPENING} a\n-->\n{END}", f"{OPENING} a", f"{OPENING} 'a -->\n{END}"]
)
def test_marks_that_are_none_are_told(page: str) -> None:
    with pytest.raises(FileFormatError, match="page: "):
        renewed(page, lambda words: "", "page")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*words: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["bench", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_page_that_drifted_is_told_and_made_again(call: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    written(tmp_path, "a.json", peers())
    page = tmp_path / "PAGE.md"
    page.write_text(f"# Page\n{OPENING} a.json --kind peers -->\n{END}\n")
    code, _, err = call("table", "--into", page, "--check")
    assert (code, "has other figures than its result files" in err) == (1, True)
    assert page.read_text().endswith(f"-->\n{END}\n")
    assert call("table", "--into", page)[0] == 0
    assert "| m | prefill 512 | 20.0 (19.0–21.0) | 10.0 (9.50–10.5) | 2.00 | 50 % |" in page.read_text()
    assert call("table", "--into", page, "--check")[0] == 0
    written(tmp_path, "a.json", peers(ours=21))
    assert call("table", "--into", page, "--check")[0] == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "give result files, or --into PAGE"),
        (["--check"], 2, "give result files, or --into PAGE"),
        (["a.json", "--into", "p.md"], 2, "leave them out"),
        (["a.json", "--kind", "batch"], 2, "expected documents of batch in a.json, found none"),
        (["--into", "p.md"], 1, "expected --kind and one of peers, points"),
        (["a.json", "--kind", "all"], 2, "all"),
    ],
)
def test_wrong_wishes_for_a_table_are_refused(
    call: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: Sequence[str],
    code: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "a.json", peers())
    (tmp_path / "p.md").write_text(f"{OPENING} a.json --kind all -->\n{END}\n")
    found, _, err = call("table", *words)
    assert found == code
    assert said in err


# pictures


def test_pictures_of_figures_and_of_several_curves_come_out_the_same(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = [
        Figure("peers", "A", "m", "prefill", "prefill 512", Rate(20, 18, 21), Rate(10, 9, 11), 400),
        Figure("peers", "A", "m", "decode", "decode 64", Rate(8, 7, 9), None, 10),
    ]
    curves = [Curve("old", [Speeds(8, 9, 1), Speeds(16, 8, 1)]), Curve("new", [Speeds(8, 10, 0), Speeds(16, 9, 0)])]
    for name in ("a.svg", "b.svg"):
        draw_figures(figures, Picture(tmp_path / name, "A"), ["first", "second"])
        draw_curves(curves, Picture(tmp_path / f"curves-{name}", "A"))
    for name in ("a.svg", "curves-a.svg"):
        assert (tmp_path / name).read_bytes() == (tmp_path / name.replace("a.svg", "b.svg")).read_bytes()
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["f4.json", "f4_batch.json", "q3.json"], 0),
        (["kernels.json"], 0),
        (["."], 0),
        (["f4_layers.json"], 1),  # one context: no line
        (["f4.json", "kernels.json"], 2),
        (["f4.json", "c.csv"], 2),
    ],
)
def test_result_files_become_pictures(
    call: Callable[..., tuple[int, str, str]], tmp_path: Path, names: Sequence[str], told: int
) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "c.csv").write_text("ctx_tokens,prefill_tps,gen_tps\n1,2,3\n2,3,4\n")
    files = [tmp_path / name if name == "c.csv" else CPU / name for name in names]
    code, _, err = call("plot", *files, "-o", tmp_path / "x.svg", "--width", "500")
    assert code == told, err
    assert (tmp_path / "x.svg").exists() == (told == 0)
    assert "Traceback" not in err


def test_several_curves_go_into_one_picture(call: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("old", "new"):
        (tmp_path / f"{name}.csv").write_text("ctx_tokens,prefill_tps,gen_tps\n1,2,3\n2,3,4\n")
    files = [tmp_path / "old.csv", tmp_path / "new.csv", RESULTS / "2026-11-30-epyc-2vcpu-f4-q2.json"]
    assert call("plot", *files, "-o", tmp_path / "x.svg")[0] == 0
    code, _, err = call("plot", *files)
    assert (code, "give its name with --out" in err) == (2, True)
    assert call("plot")[0] == 2


def test_a_picture_of_a_result_file_never_replaces_it(
    call: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    path = written(tmp_path, "a.json", peers())
    code, _, err = call("plot", path, "-o", path)
    assert (code, "which is being read" in err) == (2, True)
    assert json.loads(path.read_text()) == peers()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("title", ["$\\frac{$", "$x^{", "\x1b[2J", "漢字 😀", "a--b <&>", "\udcff", "\0"])
def test_any_title_and_any_name_can_be_drawn(tmp_path: Path, title: str) -> None:
    pytest.importorskip("matplotlib")
    curves = [Curve(title, [Speeds(8, 9, 1), Speeds(16, 8, 1)]), Curve("b", [Speeds(8, 10, 1), Speeds(16, 9, 1)])]
    figures = [Figure("peers", title, "m", "decode", "decode 64", Rate(8, 7, 9), None, 10)]
    draw_curves(curves, Picture(tmp_path / "a.svg", title))
    draw_figures(figures, Picture(tmp_path / "b.svg", title), [title])
    draw_shares([Bar(title, {title: 0.5})], Picture(tmp_path / "c.svg", title))
    for name in "abc":
        ElementTree.parse(tmp_path / f"{name}.svg")


def test_figures_reach_the_file_where_nobody_reads_and_the_reader_where_the_disk_is_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OutputSettings(json_file=tmp_path / "no" / "f.json")
    with pytest.raises(WhitedwarfError, match="cannot write"):
        full.finish("table", {"a": 1})
    assert capsys.readouterr().out == 'table\n{"a": 1}\n'

    def broken(*words: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("builtins.print", broken)
    monkeypatch.setattr("whitedwarf.cli.bench_output.told", lambda path: None)
    with pytest.raises(BrokenPipeError):
        OutputSettings(json_file=tmp_path / "f.json").finish("table", {"a": 1})
    assert (tmp_path / "f.json").read_text() == '{"a": 1}\n'
