"""The jobs of a session: numbered, found, forgotten once they are over and were told of, and all ended with it.

Promises: what they print lies in a folder that only the user can enter, within bounds; after `close` nothing of any job
runs, not even what has left its group, and the folder is gone.
"""

import atexit
import os
import re
import secrets
from pathlib import Path

from whitedwarf.agent.tool import ToolError
from whitedwarf.agent.tools.child_environment import child_environment
from whitedwarf.agent.tools.job import Job
from whitedwarf.agent.tools.job_output import JobOutput
from whitedwarf.agent.tools.private_folder import PrivateFolder
from whitedwarf.agent.tools.process_tree import MARK, kill_marked

MAX_RUNNING = 32
MAX_OUTPUTS = 64  # files that are kept


class Jobs:
    """See the module. `folder` is where commands begin, `kept` is for what they print."""

    def __init__(self, folder: Path, kept: PrivateFolder) -> None:
        self._folder = folder
        self._kept = kept
        self._jobs: dict[int, Job] = {}
        self._begun = 0
        self._mark = secrets.token_hex(16)
        self._outputs: list[Path] = []
        self._is_closed = False

    @property
    def known(self) -> list[Job]:
        """Those that run, or left something running, or were not told of."""
        return list(self._jobs.values())

    def start(self, command: str, timeout_s: float) -> Job:
        """ToolError where it cannot be started, or too many run."""
        if self._is_closed:
            raise ToolError("the session is ending; no command is started")
        running = [job for job in self.known if not job.finished.is_set() or job.has_left_processes]
        if len(running) >= MAX_RUNNING:
            raise ToolError(
                f"{MAX_RUNNING} jobs run already, which is the most; end one with bash_stop: {_names(running)}"
            )
        if not self._begun:
            atexit.register(self.close)
        self._begun = number = self._begun + 1  # also where it fails: the next one is not to meet what is left of it
        try:
            output = JobOutput(self._output_path(number))
        except OSError as error:
            raise ToolError(f"no file can be made for what the command prints ({error.strerror})") from error
        try:
            job = Job(number, command, self._folder, timeout_s, output, self._environment())
        except (OSError, ValueError) as error:
            output.close()
            self._forget_output(output.path)
            raise ToolError(_why_not_started(error, command)) from error
        self._jobs[number] = job
        return job

    def find(self, name: str, pid: str = "") -> Job:
        """By its number, or where there is none by its process; ToolError where it is not known."""
        number = re.search(r"\d+", name)
        job = self._jobs.get(int(number[0])) if number else None
        if not name.strip() and pid.strip():
            job = next((one for one in self.known if str(one.pid) == pid.strip()), None)
        if job is None:
            known = f"known are {_names(self.known)}" if self._jobs else "none is running"
            raise ToolError(f"there is no job {(name.strip() or pid.strip())[:40]!r}; {known}")
        if pid.strip() and pid.strip() != str(job.pid):
            raise ToolError(f"job {job.number} has pid {job.pid}, not {pid.strip()[:40]}; give one of the two")
        return job

    def told(self, job: Job) -> None:
        """The model knows how it ended: it is forgotten, unless it left something running."""
        if job.finished.is_set() and not job.has_left_processes:
            self._jobs.pop(job.number, None)

    def close(self) -> None:
        """End all of them; more than once is well, also where it was interrupted: what is left is ended then."""
        self._is_closed = True
        for job in self.known:
            job.kill()
            self._jobs.pop(job.number, None)
        if self._begun:
            kill_marked(self._mark)
            self._begun = 0
        self._kept.close()
        atexit.unregister(self.close)

    def _environment(self) -> dict[str, str]:
        return child_environment(os.environ) | {MARK: self._mark}

    def _output_path(self, number: int) -> Path:
        self._forget_outputs()
        path = self._kept.path / f"job-{number}.txt"
        self._outputs.append(path)
        return path

    def _forget_outputs(self) -> None:
        """The oldest files, but none of a job that is known."""
        in_use = {job.output.path for job in self.known}
        for path in [path for path in self._outputs if path not in in_use][: len(self._outputs) - MAX_OUTPUTS + 1]:
            self._forget_output(path)

    def _forget_output(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._outputs.remove(path)


def _names(jobs: list[Job]) -> str:
    return ", ".join(f"{job.number} ({job.command[:30]!r})" for job in jobs)


def _why_not_started(error: OSError | ValueError, command: str) -> str:
    if isinstance(error, ValueError):
        return "the command holds a NUL character, or half of a surrogate pair; leave it out"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"the command cannot be started: {error.filename} is gone"
    length = len(command.encode())
    return (
        f"the command cannot be started ({error.strerror}); it has {length} bytes: write a long script to a file first"
    )
