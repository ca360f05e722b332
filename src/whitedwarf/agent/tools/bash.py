"""bash, bash_status, bash_stop: commands, and those that take longer than one wants to wait."""

from whitedwarf.agent.tool import Arguments, Effect, Outcome, Running, Tool, ToolError
from whitedwarf.agent.tools.definition import define, number, text
from whitedwarf.agent.tools.job import Job
from whitedwarf.agent.tools.jobs import Jobs
from whitedwarf.agent.tools.observation import first_observation, later_observation

USUAL_TIMEOUT_S, MAX_TIMEOUT_S = 3600, 86400
USUAL_REFRESH_S, MAX_REFRESH_S = 60, 3600
_INTERRUPTED = "the user interrupted the waiting"
_JOB = text("Number of the job, as bash told it.")
_PID = text("Its pid, to be sure. Optional.")


class Bash(Tool):
    """Runs a command; one that is not done in time becomes a job."""

    definition = define(
        "bash",
        "Run a shell command in the workspace, without a terminal and without input. After refresh_sec it goes on as a "
        "job, which bash_status and bash_stop know.",
        ["command"],
        command=text("What /bin/sh is to run."),
        timeout_sec=number(f"Killed after so many seconds. Default {USUAL_TIMEOUT_S}.", 1, MAX_TIMEOUT_S),
        refresh_sec=number(f"Wait so many seconds for it. Default {USUAL_REFRESH_S}.", 1, MAX_REFRESH_S),
    )
    effect = Effect.RUN

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def summary(self, arguments: Arguments) -> str:
        """The command's first line."""
        lines = str(arguments.values.get("command", "")).strip().split("\n")
        return f"$ {lines[0][:200]}{' ...' if len(lines) > 1 or len(lines[0]) > 200 else ''}"

    def detail(self, arguments: Arguments) -> str:
        """The whole command."""
        return str(arguments.values.get("command", ""))

    def standing(self) -> str:
        """The jobs that bash_status knows."""
        jobs = [f"job {job.number}, pid {job.pid}: {job.command[:200]!r}" for job in self.jobs.known]
        return "\n".join(["Jobs of bash that bash_status can tell about:", *jobs]) if jobs else ""

    def close(self) -> None:
        """End all jobs."""
        self.jobs.close()

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        """As Tool.run."""
        command = arguments.text("command")
        if not command.strip():
            raise ToolError("command is empty; give the command to run")
        timeout_s = arguments.number("timeout_sec", USUAL_TIMEOUT_S, 1, MAX_TIMEOUT_S)
        refresh_s = arguments.number("refresh_sec", USUAL_REFRESH_S, 1, MAX_REFRESH_S)
        job = self.jobs.start(command, timeout_s)
        note = _wait(job, refresh_s, running, 0)
        return _told(self.jobs, job, first_observation(job, note))


class BashStatus(Tool):
    """How a job is doing."""

    definition = define(
        "bash_status",
        "Look at a job that bash started.",
        ["job"],
        job=_JOB,
        pid=_PID,
        refresh_sec=number("Wait so many seconds for its end. Default 0: look at once.", 0, MAX_REFRESH_S),
    )

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def summary(self, arguments: Arguments) -> str:
        """As Tool.summary."""
        return f"Looking at {_named(arguments)}"

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        """As Tool.run."""
        job = self._jobs.find(arguments.text("job", ""), arguments.text("pid", ""))
        refresh_s = arguments.number("refresh_sec", 0, 0, MAX_REFRESH_S)
        note = _wait(job, refresh_s, running, job.output.num_bytes) if refresh_s else ""
        return _told(self._jobs, job, later_observation(job, note))


class BashStop(Tool):
    """Ends a job."""

    definition = define(
        "bash_stop",
        "End a job that bash started, and all that it started: SIGTERM, and SIGKILL a second later.",
        ["job"],
        job=_JOB,
        pid=_PID,
        refresh_sec=number("Not needed.", 0, MAX_REFRESH_S),
    )

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def summary(self, arguments: Arguments) -> str:
        """As Tool.summary."""
        return f"Ending {_named(arguments)}"

    def run(self, arguments: Arguments, running: Running) -> Outcome:
        """As Tool.run."""
        job = self._jobs.find(arguments.text("job", ""), arguments.text("pid", ""))
        job.stop()
        return _told(self._jobs, job, later_observation(job))


def _wait(job: Job, seconds: float, running: Running, shown_bytes: int) -> str:
    """Wait for the job while what it prints is shown; what has to be said of the waiting."""

    def look() -> bool:
        nonlocal shown_bytes
        new, shown_bytes = job.output.since(shown_bytes)
        if new:
            running.tell(new)
        return running.interrupted.is_set()

    job.wait(seconds, look)
    return _INTERRUPTED if running.interrupted.is_set() and not job.finished.is_set() else ""


def _told(jobs: Jobs, job: Job, text: str) -> Outcome:
    jobs.told(job)
    return Outcome(text)


def _named(arguments: Arguments) -> str:
    return f"job {str(arguments.values.get('job', arguments.values.get('pid', '')))[:40]}"
