"""What the model is told about a job (spec/product.md C.6). Reads the job; changes nothing."""

from whitedwarf.agent.tools.job import Job

WHOLE_LINES, WHOLE_BYTES = 100, 8 << 10  # of a first look
TAIL_LINES_RUNNING, TAIL_LINES_DONE = 4, 20
TAIL_BYTES = 8 << 10


def first_observation(job: Job, note: str = "") -> str:
    """After its start: all that it printed if that is little, else the beginning, and how it ended if it failed."""
    is_done, output = job.finished.is_set(), job.output
    rows = _status(job, note)
    if not output.num_bytes:
        rows.append("it printed nothing" if is_done else "it has printed nothing yet")
    elif output.num_lines <= WHOLE_LINES and output.num_bytes <= WHOLE_BYTES and is_done:
        rows += ["output:", _bare(output.head(WHOLE_LINES, WHOLE_BYTES))]
    else:
        rows += [_where(job), "it begins:", _bare(output.head(WHOLE_LINES, WHOLE_BYTES))]
        if is_done and job.exit_status:
            rows += ["... and ends:", _bare(output.tail(TAIL_LINES_DONE, TAIL_BYTES))]
    return "\n".join(rows + _hints(job))


def later_observation(job: Job, note: str = "") -> str:
    """Its state, and the end of what it printed."""
    rows = _status(job, note)
    if job.output.num_bytes:
        lines = TAIL_LINES_DONE if job.finished.is_set() else TAIL_LINES_RUNNING
        rows += [_where(job), "it ends:", _bare(job.output.tail(lines, TAIL_BYTES))]
    else:
        rows.append("it has printed nothing")
    return "\n".join(rows + _hints(job))


def _status(job: Job, note: str) -> list[str]:
    name, elapsed = f"job {job.number} (pid {job.pid})", f"{job.elapsed_s:.1f} s"
    if not job.finished.is_set():
        rows = [f"{name}: running for {elapsed}, at most {job.timeout_s:g} s"]
    elif job.is_timed_out:
        rows = [f"{name}: timed out after {elapsed} and was killed"]
    elif job.is_stopped:
        rows = [f"{name}: stopped after {elapsed}"]
    else:
        rows = [f"{name}: done after {elapsed}"]
    if job.finished.is_set():
        status = job.exit_status
        by_signal = f" (ended by signal {status - 128})" if status is not None and 128 < status < 193 else ""
        rows.append(f"exit_status: {'unknown' if status is None else status}{by_signal}")
    if note:
        rows.append(note)
    return rows


def _where(job: Job) -> str:
    output = job.output
    loss = f"; {output.loss}" if output.loss else ""
    return f"output: {output.path} ({output.num_lines} lines, {output.num_bytes} bytes{loss})"


def _hints(job: Job) -> list[str]:
    if not job.finished.is_set():
        return [f"[it goes on; bash_status with job {job.number} looks again, bash_stop ends it]"]
    if job.has_left_processes:
        return [f"[processes that it started go on running; bash_stop with job {job.number} ends them]"]
    return []


def _bare(text: str) -> str:
    return text.removesuffix("\n")
