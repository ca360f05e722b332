"""bash and its jobs: what is told, what is ended, what is bounded."""

import errno
import os
import re
import stat
import threading
import time
from pathlib import Path

import psutil
import pytest

from whitedwarf.agent.tool import Arguments, Running, ToolError
from whitedwarf.agent.tools import job_output, private_folder
from whitedwarf.agent.tools import jobs as jobs_module
from whitedwarf.agent.tools.bash import Bash, BashStatus, BashStop
from whitedwarf.agent.tools.child_environment import child_environment
from whitedwarf.agent.tools.job_output import JobOutput
from whitedwarf.agent.tools.jobs import Jobs
from whitedwarf.agent.tools.private_folder import PrivateFolder
from whitedwarf.agent.tools.standard import standard_tools
from whitedwarf.agent.workspace import Workspace


class Shell:
    """The three tools over one set of jobs."""

    def __init__(self, folder):
        self.kept = PrivateFolder()
        self.jobs = Jobs(folder, self.kept)

    def bash(self, command, running=None, **values):
        return self._call(Bash, running, command=command, **values)

    def status(self, job, running=None, **values):
        return self._call(BashStatus, running, job=job, **values)

    def stop(self, job, **values):
        return self._call(BashStop, None, job=job, **values)

    def _call(self, tool, running, **values):
        return tool(self.jobs).run(Arguments(values), running or Running()).text


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    shell.jobs.close()


def timeless(text):
    return re.sub(r"pid \d+", "pid P", re.sub(r"\d+\.\d s", "T s", text))


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def eventually(holds, seconds=60.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def pids_in(path):
    eventually(lambda: path.exists() and path.read_text().endswith("\n"))
    return [int(line) for line in path.read_text().split()]


def test_a_short_command_is_told_whole(shell):
    text = shell.bash("echo out; echo err >&2; printf end")
    assert timeless(text) == "job 1 (pid P): done after T s\nexit_status: 0\noutput:\nout\nerr\nend"


def test_a_command_without_output_says_so(shell):
    assert shell.bash("true").endswith("exit_status: 0\nit printed nothing")


def test_a_failure_has_its_status_and_a_signal_its_number(shell):
    assert "exit_status: 3\n" in shell.bash("exit 3")
    assert "exit_status: 137 (ended by signal 9)" in shell.bash("kill -9 $$")
    assert "exit_status: 127\n" in shell.bash("no-such-command")


def test_the_command_is_one_argument_and_begins_in_the_workspace(shell, tmp_path):
    assert shell.bash("pwd").endswith(f"\n{tmp_path}")
    text = shell.bash("printf '%s|' \"a b\" '$(x)' \"`printf c`\" *")
    assert text.endswith("a b|$(x)|c|*|")


def test_it_reads_nothing_and_has_a_session_of_its_own(shell):
    assert shell.bash("cat; read line || echo nothing").endswith("output:\nnothing")
    shell.bash("exec sleep 100", refresh_sec=1)
    pid = shell.jobs.known[0].pid
    assert (os.getsid(pid), os.getpgid(pid)) == (pid, pid)


def test_many_lines_are_told_by_their_beginning_and_a_file(shell):
    text = shell.bash("seq 1 500")
    rows = text.split("\n")
    found = re.fullmatch(r"output: (\S+) \(500 lines, 1892 bytes\)", rows[2])
    assert Path(found[1]).read_text() == "".join(f"{number}\n" for number in range(1, 501))
    assert rows[3:5] == ["it begins:", "1"]
    assert rows[-1] == "100"


def test_a_failure_with_many_lines_is_told_by_its_end_too(shell):
    rows = shell.bash("seq 1 500; exit 1").split("\n")
    assert rows[rows.index("... and ends:") + 1 :] == [str(number) for number in range(481, 501)]


def test_exactly_100_lines_or_8_kib_are_whole(shell):
    assert "output:\n1\n" in shell.bash("seq 1 100")
    assert "it begins:" in shell.bash("seq 1 101")
    assert "output:\nx" in shell.bash("head -c 8192 /dev/zero | tr '\\0' x")
    assert "it begins:\nx" in shell.bash("head -c 8193 /dev/zero | tr '\\0' x")


def test_the_file_and_its_folder_are_private_and_gone_after_close(shell):
    shell.bash("seq 1 500")
    folder = shell.kept.path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600]
    shell.jobs.close()
    assert not folder.exists()


def test_a_long_command_becomes_a_job_that_can_be_looked_at_and_ended(shell):
    text = shell.bash("echo begun; exec sleep 100", refresh_sec="1")
    assert timeless(text).split("\n")[0] == "job 1 (pid P): running for T s, at most 3600 s"
    assert text.endswith("it begins:\nbegun\n[it goes on; bash_status with job 1 looks again, bash_stop ends it]")
    assert "it ends:\nbegun\n[it goes on" in shell.status("1")
    pid = shell.jobs.known[0].pid
    text = shell.stop("1")
    assert timeless(text).startswith(
        "job 1 (pid P): stopped after T s\nexit_status: 143 (ended by signal 15)\noutput: "
    )
    assert not is_alive(pid)
    with pytest.raises(ToolError, match="there is no job '1'; none is running"):
        shell.status("1")


def test_a_job_that_is_done_is_told_once_by_its_last_20_lines(shell):
    shell.bash("sleep 1.2; seq 1 50", refresh_sec=1)
    rows = shell.status("job 1", refresh_sec=20).split("\n")
    assert rows[1] == "exit_status: 0"
    assert rows[3:] == ["it ends:", *(str(number) for number in range(31, 51))]
    with pytest.raises(ToolError, match="there is no job 'job 1'"):
        shell.status("job 1")


def test_a_running_one_is_told_by_its_last_4_lines(shell):
    rows = shell.bash("seq 1 50; exec sleep 100", refresh_sec=1)
    rows = shell.status("1").split("\n")
    assert rows[2:7] == ["it ends:", "47", "48", "49", "50"]


def test_jobs_are_found_by_number_or_pid_and_a_wrong_pid_is_refused(shell):
    shell.bash("exec sleep 100", refresh_sec=1)
    pid = shell.jobs.known[0].pid
    tool = BashStatus(shell.jobs)
    for values in ({"job": 1}, {"job": "#1"}, {"pid": str(pid)}, {"job": "1", "pid": pid}):
        assert tool.run(Arguments(values), Running()).text.startswith("job 1")
    with pytest.raises(ToolError, match=rf"job 1 has pid {pid}, not 1; give one"):
        shell.status("1", pid="1")
    with pytest.raises(ToolError, match=r"no job '2'; known are 1 \('exec sleep 100'\)"):
        shell.stop("2")
    with pytest.raises(ToolError, match="no job ''"):
        tool.run(Arguments({}), Running())


def test_a_timeout_kills_the_whole_group_also_what_ignores_sigterm(shell, tmp_path):
    text = shell.bash("trap '' TERM; (trap '' TERM; sleep 100) & echo $! > pids; wait", timeout_sec=1)
    assert re.match(r"job 1 \(pid \d+\): timed out after \d\.\d s and was killed\nexit_status: 137", text)
    for pid in pids_in(tmp_path / "pids"):
        eventually(lambda pid=pid: not is_alive(pid))


def test_stop_kills_what_ignores_sigterm(shell):
    shell.bash("trap '' TERM; echo ready; while :; do sleep 0.1; done", refresh_sec=1)
    began = time.monotonic()
    assert "exit_status: 137" in shell.stop("1")
    assert 0.9 < time.monotonic() - began < 30


def test_stop_lets_a_command_clean_up(shell, tmp_path):
    shell.bash("trap 'echo cleaned; exit 7' TERM; echo ready; while :; do sleep 0.05; done", refresh_sec=1)
    text = shell.stop("1")
    assert "exit_status: 7" in text
    assert text.endswith("cleaned")


def test_what_a_shell_left_running_is_told_and_can_be_ended(shell, tmp_path):
    text = shell.bash("(sleep 100; echo late) & echo $! > pids; echo started")
    assert "exit_status: 0\noutput:\nstarted\n[processes that it started go on running; bash_stop with job 1" in text
    (pid,) = pids_in(tmp_path / "pids")
    assert is_alive(pid)
    assert "done after" in shell.status("1")
    shell.stop("1")
    assert not is_alive(pid)
    assert shell.jobs.known == []


def test_output_of_what_was_left_running_is_still_read(shell):
    shell.bash("(sleep 0.5; echo late) & echo started")
    (job,) = shell.jobs.known
    eventually(lambda: job.output.tail(5, 100) == "started\nlate\n")


def test_close_ends_everything_also_what_left_the_group(shell, tmp_path):
    shell.bash("exec sleep 100", refresh_sec=1)
    shell.bash("sleep 100 & echo $! > left")
    shell.bash("setsid sh -c 'echo $$ > away; exec sleep 100' > /dev/null 2>&1 & sleep 0.3")
    shell.bash(
        "trap '' TERM HUP; (trap '' TERM HUP; echo $$ > stubborn; while :; do sleep 1; done) & wait", refresh_sec=1
    )
    pids = [job.pid for job in shell.jobs.known]
    pids += [pid for name in ("left", "away", "stubborn") for pid in pids_in(tmp_path / name)]
    assert all(map(is_alive, pids_in(tmp_path / "away")))
    threads = threading.active_count()
    shell.jobs.close()
    for pid in pids:
        eventually(lambda pid=pid: not is_alive(pid))
    assert threading.active_count() < threads
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("job-")]
    shell.jobs.close()
    with pytest.raises(ToolError, match="session is ending"):
        shell.bash("true")


def test_an_interruption_ends_the_waiting_and_not_the_job(shell):
    running = Running()
    threading.Timer(0.3, running.interrupted.set).start()
    began = time.monotonic()
    text = shell.bash("exec sleep 100", running)
    assert time.monotonic() - began < 60
    assert "the user interrupted the waiting" in text
    assert is_alive(shell.jobs.known[0].pid)


def test_output_is_shown_while_it_comes_each_character_once(shell):
    told = []
    shell.bash("for i in 1 2 3; do printf 'é%s\\n' $i; sleep 0.15; done", Running(told.append))
    assert "".join(told) == "é1\né2\né3\n"
    assert len(told) > 1


def test_a_flood_is_bounded_on_disk_and_in_what_is_shown(shell, monkeypatch):
    monkeypatch.setattr(job_output, "MAX_FILE_BYTES", 1 << 20)
    monkeypatch.setattr(jobs_module, "JobOutput", lambda path: JobOutput(path, 1 << 20))
    told = []
    text = shell.bash("yes | head -c 50000000; echo the end; exit 1", Running(told.append))
    path = shell.jobs._outputs[0]
    assert path.stat().st_size == 1 << 20
    assert "50000008 bytes; only the first 1048576 bytes are kept" in text
    assert text.endswith("the end")
    assert "bytes are not shown]" in "".join(told)
    assert len(text) < 20_000


def test_a_disk_that_is_full_ends_the_file_and_not_the_command(shell, monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(job_output.os, "write", full)
        text = shell.bash("seq 1 500; exit 4")
    assert "exit_status: 4" in text
    assert "the file is not whole: No space left on device" in text
    assert text.endswith("\n500")


def test_no_place_for_output_is_an_error(shell, monkeypatch):
    monkeypatch.setattr(private_folder.tempfile, "mkdtemp", lambda prefix: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(ToolError, match=r"no file can be made for what the command prints \(full\)"):
        shell.bash("true")


def test_bytes_that_are_no_utf8_and_nul_are_told(shell):
    assert shell.bash(r"printf 'a\377\000b'").endswith("a\\xff\0b")


def test_a_close_that_was_interrupted_is_finished_by_the_next(shell, tmp_path, monkeypatch):
    shell.bash("setsid sh -c 'echo $$ > away; sleep 300' & trap '' TERM; echo $$ > here; sleep 300", refresh_sec=1)
    eventually(lambda: (tmp_path / "away").exists() and (tmp_path / "away").read_text().strip())
    pids = [int((tmp_path / name).read_text()) for name in ("here", "away")]

    def interrupted(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(jobs_module.Job, "kill", interrupted)
        with pytest.raises(KeyboardInterrupt):
            shell.jobs.close()
    with pytest.raises(ToolError, match="ending"):
        shell.bash("true")
    shell.jobs.close()
    eventually(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("command", ["echo \0", "echo \ud800", "x" * 3_000_000])
def test_a_command_that_cannot_be_started_is_not_the_end_of_others(shell, command):
    for _ in range(2):
        with pytest.raises(ToolError, match=r"NUL|cannot be started"):
            shell.bash(command)
        assert "well" in shell.bash("echo well")


def test_a_command_that_clears_the_temporary_folder_is_not_the_end_of_others(shell, tmp_path):
    shell.bash("true")
    first = shell.kept.path
    shell.bash(f"rm -rf {first}; ln -s {tmp_path} {first}")
    assert "well" in shell.bash("echo well")
    assert shell.kept.path != first
    assert stat.S_IMODE(shell.kept.path.stat().st_mode) == 0o700
    first.unlink()


def test_a_command_that_closes_its_output_is_waited_for(shell):
    assert "exit_status: 5" in shell.bash("exec >&- 2>&-; sleep 0.3; exit 5")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "command is missing"),
        ({"command": " \n"}, "command is empty"),
        ({"command": "a\0b"}, "holds a NUL"),
        ({"command": "echo \ud800"}, "half of a surrogate pair"),
        ({"command": ": " + "x" * 200_000}, "it has 200002 bytes: write a long script to a file"),
        ({"command": "true", "timeout_sec": 0}, "timeout_sec to be a number from 1 to 86400"),
        ({"command": "true", "refresh_sec": "soon"}, "refresh_sec to be a number from 1 to 3600"),
    ],
)
def test_what_cannot_be_run_is_refused(shell, values, words):
    with pytest.raises(ToolError, match=words):
        Bash(shell.jobs).run(Arguments(values), Running())
    assert shell.jobs.known == []


def test_a_workspace_that_is_gone_is_named(shell, tmp_path):
    tmp_path.rmdir()
    with pytest.raises(ToolError, match=f"{tmp_path} is gone"):
        shell.bash("true")
    tmp_path.mkdir()


def test_too_many_jobs_are_refused_by_their_names(shell, monkeypatch):
    monkeypatch.setattr(jobs_module, "MAX_RUNNING", 2)
    for _ in range(2):
        shell.bash("exec sleep 100", refresh_sec=1)
    with pytest.raises(ToolError, match=r"2 jobs run already, .* bash_stop: 1 \('exec sleep 100'\), 2"):
        shell.bash("true")
    shell.stop("1")
    assert "exit_status: 0" in shell.bash("true")


def test_old_outputs_are_forgotten_but_none_that_is_in_use(shell, monkeypatch):
    monkeypatch.setattr(jobs_module, "MAX_OUTPUTS", 3)
    shell.bash("exec sleep 100", refresh_sec=1)
    for _ in range(5):
        shell.bash("true")
    names = sorted(path.name for path in shell.kept.path.iterdir())
    assert names == ["job-1.txt", "job-5.txt", "job-6.txt"]


def test_hundreds_of_short_commands_leave_no_descriptor_and_no_thread(shell):
    shell.bash("true")
    descriptors = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for number in range(100):
        assert f"\n{number}" in shell.bash(f"echo {number}")
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("job-")])
    if descriptors:
        assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 1


def test_our_keys_are_not_given_away_and_others_are():
    ours = {
        "WHITEDWARF_API_KEY": "1",
        "WHITEDWARF_MODEL": "2",
        "HF_TOKEN": "3",
        "HUGGING_FACE_HUB_TOKEN": "4",
        "OPENAI_API_KEY": "5",
        "ANTHROPIC_AUTH_TOKEN": "6",
        "DEEPSEEK_API_KEY": "7",
        "GITHUB_TOKEN": "8",
        "PATH": "9",
    }
    theirs = child_environment(ours)
    assert {name for name in ours if name in theirs} == {"WHITEDWARF_MODEL", "GITHUB_TOKEN", "PATH"}
    assert theirs["PAGER"] == "cat"


def test_a_command_does_not_see_our_keys(shell, monkeypatch):
    monkeypatch.setenv("WHITEDWARF_API_KEY", "sesame")
    assert "sesame" not in shell.bash("env")


def test_the_question_shows_the_whole_command_and_the_summary_its_first_line(shell):
    tool = Bash(shell.jobs)
    arguments = Arguments({"command": "one\ntwo\n"})
    assert tool.summary(arguments) == "$ one ..."
    assert tool.detail(arguments) == "one\ntwo\n"
    assert tool.summary(Arguments({"command": ["x"]})).startswith("$ ")
    assert BashStatus(shell.jobs).summary(Arguments({"job": 3})) == "Looking at job 3"
    assert BashStop(shell.jobs).summary(Arguments({"pid": 7})) == "Ending job 7"


def test_the_file_can_be_read_with_read_also_where_the_workspace_is_strict(tmp_path):
    toolbox = standard_tools(Workspace(tmp_path, is_strict=True))
    try:
        text = toolbox.find("bash").run(Arguments({"command": "seq 1 300"}), Running()).text
        path = re.search(r"output: (\S+)", text)[1]
        assert (
            "lines 300-300 of 300"
            in toolbox.find("read").run(Arguments({"path": path, "start_line": 300}), Running()).text
        )
    finally:
        toolbox.close()


def test_a_part_of_a_character_waits_for_the_rest(tmp_path):
    output = JobOutput(tmp_path / "out")
    place, told = 0, ""
    for byte in "aé€😀z".encode():
        output.add(bytes([byte]))
        new, place = output.since(place)
        told += new
    output.close()
    assert told == "aé€😀z"


def test_the_tail_begins_with_a_whole_line(tmp_path):
    output = JobOutput(tmp_path / "out")
    output.add(b"x" * 100 + b"\n" + b"y" * 10 + b"\nz")
    assert output.tail(20, 20) == "y" * 10 + "\nz"
    assert output.tail(1, 20) == "z"
    assert output.tail(1, 1000) == "z"
    assert output.num_lines == 3
    output.close()
    output.close()
