"""Context lengths, CSV files and the pictures drawn from them."""

from pathlib import Path

import pytest

from whitedwarf.bench.frontiers import CSV_HEADER, Speeds, csv_text, frontiers, read_csv
from whitedwarf.bench.plot import Bar, Picture, check_plot, draw_shares, draw_speeds
from whitedwarf.bench.speed import Sample
from whitedwarf.errors import FileFormatError, UsageError


@pytest.mark.parametrize(
    ("start", "end", "increment", "factor", "lengths"),
    [
        (2048, 6144, 2048, 1.0, (2048, 4096, 6144)),
        (100, 250, 100, 1.0, (100, 200, 250)),
        (100, 450, 1, 2.0, (100, 200, 400, 450)),
        (3, 8, 1, 1.5, (3, 5, 8)),
        (7, 7, 1, 1.0, (7,)),
    ],
)
def test_the_last_length_is_exactly_the_end(
    start: int, end: int, increment: int, factor: float, lengths: tuple[int, ...]
) -> None:
    assert frontiers(start, end, increment, factor) == lengths


@pytest.mark.parametrize(
    ("start", "end", "factor", "words"),
    [
        (9, 8, 1.0, "--ctx-start 9 <= --ctx-max 8"),
        (1, 8, 0.5, "--step-mul 0.5 >= 1"),
        (1, 8, float("inf"), "finite"),
        (1, 5000, 1.0, "at most 1000 context lengths"),
    ],
)
def test_what_is_no_series_is_refused(start: int, end: int, factor: float, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        frontiers(start, end, 1, factor)


def test_a_csv_file_is_read_back(tmp_path: Path) -> None:
    samples = [
        Sample(8, 8, (2.0, 4.0, 3.0), (0.5, 0.25, 0.5), 100),
        Sample(24, 16, (4.0, 4.0, 4.0), (), 200),
    ]
    text = csv_text(samples, repeats=3)
    assert text.splitlines() == [",".join(CSV_HEADER), "8,8,2.67,1,2.00,100", "24,16,4.00,0,0.00,200"]
    (tmp_path / "m.csv").write_text(text)
    assert read_csv(tmp_path / "m.csv") == [Speeds(8, 2.67, 2), Speeds(24, 4, 0)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ctx_tokens is missing"),
        ("ctx_tokens,prefill_tps\n1,2\n3,4\n", "gen_tps is missing"),
        ("ctx_tokens,prefill_tps,gen_tps\n1,2,3\n", "at least 2 rows .*, found 1"),
        ("ctx_tokens,prefill_tps,gen_tps\n1,2,3\n1,x,3\n", "line 3: prefill_tps is 'x'"),
        ("ctx_tokens,prefill_tps,gen_tps\n1,2,3\n1,2\n", "line 3: gen_tps is None"),
        ("ctx_tokens,prefill_tps,gen_tps\n1,2,3\n1,2,nan\n", "gen_tps is 'nan'"),
        ("ctx_tokens,prefill_tps,gen_tps\n1,2,3\n1,2,-1\n", "gen_tps is '-1'"),
    ],
)
def test_what_is_wrong_in_a_csv_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "m.csv").write_text(text)
    with pytest.raises(FileFormatError, match=words):
        read_csv(tmp_path / "m.csv")


def test_a_csv_file_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_csv(tmp_path / "none.csv")
    (tmp_path / "m.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileFormatError, match="no text"):
        read_csv(tmp_path / "m.csv")


def test_pictures_show_both_axes_and_come_out_the_same(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    points = [Speeds(8, 100, 10), Speeds(24, 90, 9)]
    for name in ("a.svg", "b.svg", "c.png"):
        draw_speeds(points, Picture(tmp_path / name, "nano on a machine"))
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    for colour in ("#1f5fbf", "#c22f2f"):
        assert colour in text
    draw_shares(
        [Bar("q8_0", {"avx2": 0.5, "scalar": 0.1}), Bar("q2_k", {"avx2": 0.7})], Picture(tmp_path / "d.svg", "x")
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.svg", "b.svg", "c.png", "d.svg"]


def test_without_matplotlib_the_command_to_install_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whitedwarf.bench.plot.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'whitedwarf\[bench\]'"):
        check_plot(Path("x.svg"))
    with pytest.raises(UsageError, match=r"ends in \.svg"):
        check_plot(Path("x.txt"))
