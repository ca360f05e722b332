"""Peers as companions: what is asked of them, in which order, what they answer, and what happens when they cannot."""

import json
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from whitedwarf.bench.llama_bench import LlamaBench, Variant
from whitedwarf.bench.llama_server import LlamaServer
from whitedwarf.bench.machine import Machine
from whitedwarf.bench.peers import Comparison, Progress, compare, output_of, point_flags, read_rates
from whitedwarf.bench.peers_report import Limits, PeersReport
from whitedwarf.bench.points import Point, Rates, points
from whitedwarf.errors import WhitedwarfError

PP, TG, DEEP = Point(0, "prefill", 512), Point(0, "decode", 64), Point(1000, "decode", 64)

# Like llama-bench in its flags and its JSON. The speed tells the settings; a folder beside it notes each call.
FAKE_BENCH = """#!/usr/bin/env python3
import itertools, json, pathlib, sys
words = sys.argv[1:]
if words == ["--help"]:
    print("  --repack <0|1>")
    sys.exit()
flags = dict(zip(words[::2], words[1::2]))
log = pathlib.Path(__file__).with_suffix(".log")
log.write_text((log.read_text() if log.exists() else "") + " ".join(words[4:]) + "\\n")
if flags["--repack"] == "1" and flags["-ub"] == "512":
    sys.exit("GGML_ASSERT failed")
speed = int(flags["-ub"]) + (1000 if flags["--repack"] == "1" else 0)
tests = []
for depth in map(int, flags["-d"].split(",")):
    counts = [(int(n), 0) for n in flags["-p"].split(",")] + [(0, int(n)) for n in flags["-n"].split(",")]
    for prompt, gen in counts:
        if prompt or gen:
            samples = [speed + i for i in range(int(flags["-r"]))]
            tests.append({"n_prompt": prompt, "n_gen": gen, "n_depth": depth, "avg_ts": speed, "samples_ts": samples})
print(json.dumps(tests))
"""


def program(folder: Path, script: str) -> Path:
    binary = folder / "llama-bench"
    binary.write_text(script)
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    return binary


def test_points_are_all_combinations_depth_by_depth() -> None:
    asked = points([512, 2048], [64], [0, 1000])
    assert [point.name for point in asked] == ["pp512", "pp2048", "tg64", "pp512@1000", "pp2048@1000", "tg64@1000"]
    assert point_flags(asked) == ["-p", "512,2048", "-n", "64", "-d", "0,1000"]
    assert point_flags([DEEP]) == ["-p", "0", "-n", "64", "-d", "1000"]
    assert (DEEP.end, DEEP.at_start) == (1064, TG)


def test_tests_are_read_with_and_without_samples() -> None:
    assert read_rates({"n_prompt": 512, "n_gen": 0, "avg_ts": 2.5}) == Rates(PP, (2.5,))
    test = {"n_prompt": 0, "n_gen": 64, "n_depth": 1000, "avg_ts": 2.5, "samples_ts": [2, 3]}
    assert read_rates(test) == Rates(DEEP, (2.0, 3.0))
    back = json.loads(json.dumps(Rates(DEEP, (2.0, 3.0)).as_llama_bench()))
    assert read_rates(back) == Rates(DEEP, (2.0, 3.0))


def test_every_setting_is_tried_and_the_fastest_is_used(tmp_path: Path) -> None:
    bench = LlamaBench(program(tmp_path, FAKE_BENCH), tmp_path / "m.gguf", 2, (256, 512, 2048))
    said: list[str] = []
    bench.prepare([PP, Point(0, "prefill", 2048), TG], said.append)
    assert len(said) == 6
    assert bench.best == {
        PP: Variant(256, True),  # with 512 it fails, and 2048 does nothing more for 512 tokens
        Point(0, "prefill", 2048): Variant(2048, True),
        TG: Variant(256, True),
    }
    assert bench.failed == {"ub 512, repack 1": f"{bench.binary} failed: GGML_ASSERT failed"}
    assert bench.tried[TG] == {"ub 256, repack 0": 256, "ub 256, repack 1": 1256}
    assert bench.measure([DEEP], 3) == [Rates(DEEP, (1256, 1257, 1258))]
    assert (tmp_path / "llama-bench.log").read_text().splitlines()[-1] == (
        "-p 0 -n 64 -d 1000 -r 3 -ub 256 -b 2048 --repack 1 -o json"
    )


def test_a_peer_that_always_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    bench = LlamaBench(
        program(tmp_path, "#!/bin/sh\n[ $1 = --help ] || { echo no such model >&2; exit 3; }"), tmp_path, 1
    )
    with pytest.raises(WhitedwarfError, match="failed: no such model"):
        bench.prepare([PP], lambda _: None)


@pytest.mark.parametrize("answer", ["nothing", "{}", "[1]", '[{"n_prompt": "x"}]', "[]"])
def test_an_answer_in_another_form_is_told(tmp_path: Path, answer: str) -> None:
    bench = LlamaBench(program(tmp_path, f"#!/bin/sh\necho '{answer}'"), tmp_path, 1)
    with pytest.raises(WhitedwarfError, match=r"did not answer like|did not measure pp512"):
        bench.prepare([PP], lambda _: None)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo loading >&2; echo 'no such model' >&2; exit 1", "failed: no such model$"),
        ("exit 3", "failed: .*exit status 3"),
        ("echo >&2; exit 3", "failed: .*exit status 3"),
    ],
)
def test_last_words_are_told_when_a_program_fails(tmp_path: Path, script: str, words: str) -> None:
    with pytest.raises(WhitedwarfError, match=words):
        output_of([str(program(tmp_path, f"#!/bin/sh\n{script}\n"))])


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(WhitedwarfError, match=r"nowhere failed: .*No such file"):
        output_of([str(tmp_path / "nowhere")])


@dataclass
class FakeSide:
    name: str
    speed: float
    calls: list[str]
    lacks: Sequence[Point] = field(default_factory=list)

    def prepare(self, asked: Sequence[Point], progress: Progress) -> None:
        self.calls.append(f"{self.name} prepares {len(asked)}")

    def measure(self, asked: Sequence[Point], repeats: int) -> Sequence[Rates]:
        self.calls.append(f"{self.name} {' '.join(point.name for point in asked)} x{repeats}")
        return [Rates(point, (self.speed,) * repeats) for point in asked if point not in self.lacks]

    def settings(self, point: Point) -> str:
        return "set"


def test_both_sides_take_turns() -> None:
    calls: list[str] = []
    ours, theirs = FakeSide("we", 2.0, calls), FakeSide("they", 1.0, calls)
    found = compare(ours, theirs, [PP, TG, DEEP], 3, lambda _: None)
    assert calls == [
        "they prepares 2",
        *["we pp512 tg64 x1", "they pp512 tg64 x1"] * 3,
        "we tg64@1000 x2",
        "they tg64@1000 x3",
        "we tg64@1000 x2",
    ]
    assert (len(found.ours[PP]), len(found.theirs[PP]), len(found.ours[DEEP]), len(found.theirs[DEEP])) == (3, 3, 4, 3)


def test_the_report_sets_medians_beside_each_other_and_the_limit() -> None:
    calls: list[str] = []
    ours, theirs = FakeSide("we", 30.0, calls), FakeSide("they", 20.0, calls, [DEEP])
    found = compare(ours, theirs, [PP, TG, DEEP], 5, lambda _: None)
    limits = Limits(Machine("cpu", 2, "avx2", 1e9), 20_000_000, 1_000_000, 100e6)
    report = PeersReport("m.gguf", limits, ours, theirs, found, {TG: {"ub 512": 3.0}}, {"ub 1": "no"})
    rows = report.table().splitlines()[3:]
    assert rows[0].split() == ["pp512", "30.00", "(30.00-30.00)", "30%", "20.00", "(20.00-20.00)", "20%", "1.50", "set"]
    assert rows[1].split()[3::3] == ["60%", "40%"]
    assert rows[2].split() == ["tg64@1000", "30.00", "(30.00-30.00)", "60%", "not", "measured", "-", "-"]
    assert rows[3] == "not with ub 1: no"
    document = json.loads(json.dumps(report.document()))
    assert [point["ratio"] for point in document["points"]] == [1.5, 1.5, None]
    assert document["tried"] == {"tg64": {"ub 512": 3.0}}


class FakeServer(BaseHTTPRequestHandler):
    """Like llama-server's /completion: counts what it does not know from the request before."""

    known: Sequence[int] = ()
    keeps = True

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ids, cls = asked["prompt"], type(self)
        same = 0
        while cls.keeps and same < min(len(ids), len(cls.known)) and ids[same] == cls.known[same]:
            same += 1
        cls.known = ids
        timings = {"prompt_n": len(ids) - same, "prompt_per_second": 100.0, "predicted_per_second": 10.0}
        body = json.dumps({"timings": timings} if max(ids, default=0) < 512 else {"error": "bad id"}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    FakeServer.known, FakeServer.keeps = (), True
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeServer) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_a_server_tells_its_speeds_by_its_own_clocks(server: str) -> None:
    side = LlamaServer(server, 512)
    side.prepare([PP], lambda _: None)
    deep = Point(300, "prefill", 512)
    assert side.measure([PP, TG, deep], 2) == [Rates(PP, (100, 100)), Rates(TG, (10, 10)), Rates(deep, (100, 100))]


def test_prefill_at_a_depth_is_left_out_where_the_server_reads_everything_again(server: str) -> None:
    FakeServer.keeps = False
    assert LlamaServer(server, 512).measure([Point(300, "prefill", 512)], 2) == []


def test_a_server_that_answers_otherwise_or_not_at_all_is_told(server: str) -> None:
    with pytest.raises(WhitedwarfError, match="did not answer like llama-server"):
        LlamaServer(server, 100_000).measure([PP], 1)
    with pytest.raises(WhitedwarfError, match="does not answer"):
        LlamaServer("http://127.0.0.1:9", 512).measure([PP], 1)


def test_nothing_was_measured_of_either() -> None:
    report = PeersReport(
        "m",
        Limits(Machine("cpu", 1, "x", 1.0), 1, 1),
        FakeSide("a", 1, []),
        FakeSide("b", 1, []),
        Comparison([PP]),
        {},
        {},
    )
    assert report.table().splitlines()[-1].split() == ["pp512", "not", "measured", "-", "not", "measured", "-", "-"]
