"""The plugin inside the real DSH, with a supervisor that misbehaves on order (spec/supervisor.md 7.28).

Whatever is wrong, the task is done: that DSH starts and ends as if there were no plugin is part of every test here.
"""

import os
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from supervisor.dsh.agent import PACKAGE, PLUGIN, Dsh, Finished, ended, settle
from supervisor.dsh.stand_in import StandIn

pytestmark = pytest.mark.clients


def is_taken(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


UP = "until uses the supervisor"


@pytest.fixture
def run(dsh: Dsh, answering: Path) -> Any:
    """A task with the plugin and these options; it must end well."""

    def run(options: dict[str, Any] | None, *commands: str, **environment: str) -> Finished:
        dsh.add_plugin(options)
        done = dsh.run("Say something.", patches=[answering], commands=commands, environment=environment)
        assert (done.code, done.printed.strip()) == (0, "All is well."), done.told
        return done

    return run


def log_of(dsh: Dsh) -> str:
    log = dsh.home / "local-model-supervisor.log"
    return log.read_text() if log.exists() else ""


def test_a_supervisor_is_started_told_to_unload_at_the_end_and_lives_on(run: Any, stand_in: StandIn, dsh: Dsh) -> None:
    run(stand_in.options, UP)
    assert stand_in.lives(1)
    assert stand_in.notes("born")[0]["argv"] == [str(stand_in.folder / "models.json")]
    assert stand_in.asked("post") == ["/__supervisor/unload?drain=1"]
    assert f"uses the supervisor that answers on port {stand_in.port}" in log_of(dsh)


def test_a_running_supervisor_is_used(run: Any, stand_in: StandIn, dsh: Dsh) -> None:
    run(stand_in.options, UP)
    dsh.commands_done.unlink()
    again = dsh.run("Again.", patches=[stand_in.folder / "route.yml"], commands=[UP, "/localmodel"])
    ((kind, text),) = again.commands
    assert kind == "success"
    assert text.splitlines() == [
        f"The supervisor answers on port {stand_in.port}. It has the models of {stand_in.folder / 'models.json'}:",
        f"star (port {stand_in.port}): unloaded",
    ]
    assert len(stand_in.notes("born")) == 1


def test_the_commands_words_are_understood_or_told(run: Any, stand_in: StandIn) -> None:
    words = ["", "start", "start star", "START bad", "unload", "unload star", "dance", "status star", "start star now"]
    answers = run(stand_in.options, UP, *(f"/localmodel {word}".strip() for word in words)).commands
    kinds, texts = [kind for kind, _ in answers], [text for _, text in answers]
    assert kinds == ["success"] * 3 + ["error"] + ["success"] * 2 + ["error"] * 3
    assert texts[1] == texts[2] == "star is loaded."
    assert texts[3] == "The supervisor answered 400: bad: the file is not there"
    assert (
        texts[6] == "/localmodel dance: not understood. Expected: /localmodel status | start [MODEL] | unload [MODEL]"
    )
    paths = ["start?model=star", "start?model=star", "start?model=bad", "unload", "unload?model=star", "unload?drain=1"]
    assert stand_in.asked("post") == [f"/__supervisor/{path}" for path in paths]


def test_without_auto_start_nothing_runs_until_it_is_asked_for(run: Any, stand_in: StandIn) -> None:
    answers = run({**stand_in.options, "autoStart": False}, "/localmodel", "/localmodel start").commands
    told = f"The supervisor is not running (nobody listens on port {stand_in.port}). /localmodel start starts it."
    assert answers == [("success", told), ("success", "star is loaded.")]
    assert stand_in.lives(1)


def test_a_stranger_on_the_port_is_left_alone(run: Any, stand_in: StandIn, dsh: Dsh) -> None:
    asked: list[str] = []

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", stand_in.port), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        answers = run(stand_in.options, "/localmodel", "/localmodel start", "/localmodel unload").commands
        server.shutdown()
        thread.join()
    told = f"port {stand_in.port} is held by a server that is no supervisor of ours: it answers 404"
    assert [kind for kind, _ in answers] == ["error"] * 3
    assert all(told in text for _, text in answers)
    assert told in log_of(dsh)
    assert set(asked) == {"/__supervisor/status"}
    assert stand_in.notes("born") == []


def test_a_stranger_that_never_answers_holds_up_nobody(run: Any, stand_in: StandIn) -> None:
    with socket.create_server(("127.0.0.1", stand_in.port)):
        (answer,) = run(stand_in.options, "/localmodel").commands
    assert answer[0] == "error"
    assert "it does not answer" in answer[1]


def test_a_program_that_is_not_there_is_told(run: Any, stand_in: StandIn) -> None:
    options = {**stand_in.options, "command": ["/nowhere/python", "-m", "whitedwarf"], "startTimeoutMs": 20000}
    kind, text = run(options, "/localmodel start").commands[0]
    assert kind == "error"
    assert "the supervisor did not start: cannot run /nowhere/python" in text
    assert "option command" in text


def test_a_supervisor_that_refuses_its_config_is_quoted(run: Any, stand_in: StandIn) -> None:
    stand_in.behave(die="models.json line 3, column 7: expected a comma")
    kind, text = run(stand_in.options, "/localmodel start").commands[0]
    assert kind == "error"
    assert text.startswith("the supervisor did not start: exit code 1")
    assert "line 3, column 7: expected a comma" in text


def test_a_supervisor_that_never_answers_is_ended(run: Any, stand_in: StandIn) -> None:
    stand_in.behave(bind_after_s=60)
    kind, text = run({**stand_in.options, "startTimeoutMs": 500}, "/localmodel start").commands[0]
    assert (kind, text) == ("error", "the supervisor did not answer within 500 ms (startTimeoutMs)")
    assert stand_in.lives(0)


@pytest.mark.parametrize(
    ("options", "complaints"),
    [
        ([1, 2], ["config: expected options by name"]),
        (
            {"publicPorts": "8080", "autoStart": 0, "supervisorScript": "/x.js", "startTimeoutMs": -1, "command": []},
            ["publicPorts: expected a list of ports", "autoStart: expected true", "supervisorScript: not known"],
        ),
    ],
    ids=["a list", "values"],
)
@pytest.mark.skipif(is_taken(8080), reason="port 8080 is somebody's, and the plugin would speak to it by default")
def test_wrong_options_are_told_and_their_defaults_used(
    run: Any, dsh: Dsh, options: Any, complaints: list[str]
) -> None:
    kind, text = run(options, "/localmodel", PATH=os.defpath).commands[0]
    assert kind == "success"
    for complaint in complaints:
        assert complaint in text
        assert complaint in log_of(dsh)


def test_leaving_takes_less_than_dsh_allows(run: Any, stand_in: StandIn, dsh: Dsh) -> None:
    stand_in.behave(unload_s=60)
    run(stand_in.options, UP)
    (asked,) = stand_in.notes("post")
    assert time.monotonic() - asked["at_s"] < 30
    assert "on exit: the supervisor was asked and has not finished yet" in log_of(
        dsh
    )  # not cut short by DSH, after 5 s


def test_nothing_is_unloaded_where_that_is_switched_off(run: Any, stand_in: StandIn) -> None:
    run({**stand_in.options, "unloadOnExit": False}, UP)
    assert stand_in.asked("post") == []
    assert stand_in.lives(1)


def test_stop_on_exit_ends_the_supervisor_that_this_dsh_started(run: Any, stand_in: StandIn) -> None:
    run({**stand_in.options, "stopOnExit": True}, UP)
    assert stand_in.lives(0)
    assert len(stand_in.notes("term")) == 1


def test_a_supervisor_that_falls_is_started_again(stand_in: StandIn, dsh: Dsh, answering: Path) -> None:
    dsh.add_plugin(stand_in.options)
    again = f"until uses the supervisor that answers on port {stand_in.port} again"
    run = dsh.start("Say something.", patches=[answering], commands=[again])
    end_once_used(stand_in, dsh, signal.SIGKILL)
    assert ended(run).code == 0
    assert len(stand_in.notes("bound")) == 2
    assert stand_in.lives(1)


def test_a_supervisor_that_was_told_to_end_stays_ended(stand_in: StandIn, dsh: Dsh, answering: Path) -> None:
    dsh.add_plugin(stand_in.options)
    run = dsh.start("Say something.", patches=[answering], commands=["until the supervisor ended: exit code 0"])
    end_once_used(stand_in, dsh, signal.SIGTERM)
    assert ended(run).code == 0
    assert "starts it again" not in log_of(dsh)
    assert stand_in.lives(0)


def end_once_used(stand_in: StandIn, dsh: Dsh, how: signal.Signals) -> None:
    deadline_s = time.monotonic() + 60
    while "uses the supervisor" not in log_of(dsh):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    os.kill(stand_in.living[0], how)


def test_a_supervisor_behind_a_key_is_used_with_it_and_the_log_does_not_say_it(
    run: Any, stand_in: StandIn, dsh: Dsh
) -> None:
    stand_in.behave(api_key="star-secret")
    run({**stand_in.options, "apiKeyEnv": "STAR_KEY"}, UP, STAR_KEY="star-secret")
    assert stand_in.asked("post") == ["/__supervisor/unload?drain=1"]
    assert "star-secret" not in log_of(dsh)


def test_a_log_that_cannot_be_written_changes_nothing(run: Any, stand_in: StandIn) -> None:
    run({**stand_in.options, "logFile": "/dev/null/no.log"}, "/localmodel start")
    assert stand_in.lives(1)


def test_a_lock_left_by_a_killed_dsh_holds_up_nobody(run: Any, stand_in: StandIn, dsh: Dsh) -> None:
    (dsh.home / "local-model-supervisor.log.starting").write_text("999999999")
    run(stand_in.options, UP)
    assert stand_in.lives(1)


def test_two_dsh_at_once_start_one_supervisor(stand_in: StandIn, dsh: Dsh, answering: Path) -> None:
    stand_in.behave(bind_after_s=0.5)
    dsh.add_plugin(stand_in.options)
    _both_end_well([dsh, dsh], answering)
    assert len(stand_in.notes("born")) == 1
    assert stand_in.lives(1)


def test_of_two_that_know_nothing_of_each_other_the_ports_choose_one(
    stand_in: StandIn, dsh: Dsh, answering: Path, tmp_path: Path
) -> None:
    stand_in.behave(bind_with=2)  # both have looked by then
    other = settle(dsh.program, tmp_path / "other")
    for one in (dsh, other):
        one.add_plugin(stand_in.options)
    _both_end_well([dsh, other], answering)
    assert len(stand_in.notes("born")) == 2
    assert stand_in.lives(1)
    assert len(stand_in.notes("bound")) == 1
    for one in (dsh, other):
        assert f"uses the supervisor that answers on port {stand_in.port}" in log_of(one)


def _both_end_well(homes: Sequence[Dsh], patch: Path) -> None:
    runs = [home.start("Say something.", patches=[patch], commands=[UP]) for home in homes]
    for run in runs:
        done = ended(run)
        assert (done.code, done.printed.strip()) == (0, "All is well."), done.told


def test_the_package_is_whole_and_names_its_bundle(dsh: Dsh) -> None:
    dsh.add_plugin()
    dumped = dsh.dump_config()
    assert dumped.code == 0
    assert "id: local-model-supervisor" in dumped.printed


@pytest.mark.skipif(shutil.which("pnpm") is None, reason="dsh plugin needs pnpm, which is not installed here")
def test_dsh_itself_installs_and_removes_the_package(dsh: Dsh) -> None:
    added = dsh.call("plugin", "--profile", "headless", "add", f"link:{PLUGIN}")
    assert added.code == 0, added.told
    assert "id: local-model-supervisor" in dsh.dump_config().printed
    removed = dsh.call("plugin", "--profile", "headless", "remove", PACKAGE)
    assert removed.code == 0, removed.told
    assert "id: local-model-supervisor" not in dsh.dump_config().printed


def test_the_documents_name_every_option() -> None:
    rules = (PLUGIN / "lib" / "options.js").read_text().partition("const RULES = {")[2].partition("\n}")[0]
    options = re.findall(r"^  (\w+):", rules, re.MULTILINE)
    assert len(options) == 9
    page = (PLUGIN.parents[3] / "docs" / "supervisor.md").read_text()
    assert [option for option in options if f"`{option}`" not in page] == []
