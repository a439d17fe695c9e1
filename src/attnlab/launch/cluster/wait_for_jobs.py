"""Waits for jobs on Slurm, and says what becomes of them: started, back in the queue, finished, failed."""

import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from attnlab.config.message_text import counted, listed, short_path
from attnlab.launch.cluster.slurm_commands import SlurmError, SlurmJob, cancel_command, final_state, held_jobs
from attnlab.launch.run_job import JobTask, say
from attnlab.run.run_folder import RunError, RunFolder, is_finished
from attnlab.run.run_lock import is_locked

SHORTEST, LONGEST = 2.0, 30.0
"""seconds between two questions to Slurm: after news the shortest time, then longer and longer"""
LATE_FILES = 20.0
"""seconds until a file that another machine wrote is surely seen here"""
EXPECTED = re.compile(r"|None|Priority|Resources|BeginTime|JobArrayTaskLimit|Dependency|Prolog|Nodes required.*")
"""reasons for which every job waits for a while"""


@dataclass(eq=False)
class Awaited:
    """A run that is waited for.

    job:     its id on Slurm, `17_3` in an array; empty: a process that is not known here trains the run.
    log:     file with the job's output.
    options: of the launcher that submitted it, if they are known.
    seen:    the last state that Slurm told.
    before:  status.json of the run when it was last looked at: submitted, found in or put back into the queue, failed.
    """

    task: JobTask
    job: str = ""
    log: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    seen: SlurmJob | None = field(default=None, init=False)
    before: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.status()

    def status(self) -> dict[str, Any]:
        """status.json of the run."""
        try:
            return RunFolder(self.task.folder).status()
        except RunError as error:
            return {"state": "failed", "reason": str(error)}

    def has_ended(self, held: Mapping[str, SlurmJob]) -> bool:
        """Whether its job has ended, or it is finished beside others of its job; one that fails there is printed."""
        if self.job not in held:
            return bool(self.job) or not is_locked(self.task.folder)
        status = self.status() if self.options.get("runs_per_task", 1) > 1 else {}
        if status.get("state") == "failed" and status != self.before:
            self.before = status
            say(self.task.label, f"{self.task.name}: failed: {status['reason']}; other runs of job {self.job} go on")
        return status.get("state") == "finished"

    def print_change(self, now: SlurmJob) -> bool:
        """Print that the job began, or went back into the queue; returns whether it did."""
        before, self.seen = self.seen or replace(now, state=""), now
        again = now.restarts > before.restarts
        if again:
            former, self.before = self.before.get("last_stop"), self.status()
            stop = self.before.get("last_stop")
            # no such words if the run could not be saved
            why = f" ({stop['reason']}, step {stop['step']:,})" if stop not in (None, former) else ""
            say(self.task.label, f"job {self.job} is back in the queue{why}; it goes on later")
        begins = now.state == "RUNNING" and (again or before.state != "RUNNING")
        if begins:
            say(self.task.label, f"{self.task.name}: job {self.job} runs on {now.nodes}")
        return again or begins

    def print_end(self, deadline: float) -> None:
        """Print how the job ended, as the files of the run say that, or when they can no longer be late."""
        while not (finished := is_finished(self.task.job)) and time.monotonic() < deadline:
            if (status := self.status()) != self.before and status.get("state") in ("failed", "stopped"):
                break
            time.sleep(1)
        if finished:
            say(self.task.label, "finished")
            return
        parts = [f"job {self.job} is {state}"] if self.job and (state := final_state(self.job)) else []
        if self.log is None or self.log.exists():
            status = {"state": "its job ended before the run began"} | self.status()
            if status["state"] == "running":
                status = {"state": f"its job ended without a word at step {status.get('step', 0):,}"}
            # an earlier job may have left it
            since = f", since {status.get('updated', 'before')}" if status == self.before else ""
            parts.append(": ".join(filter(None, (status["state"], status.get("reason")))) + since)
            parts += [f"log: {short_path(self.log)}"] if self.log else []
        say(self.task.label, f"{self.task.name}: {'; '.join(parts) or 'its job has ended before it began'}")


def wait_for_jobs(left: list[Awaited]) -> None:
    """Wait until no job is in the queue or running, and remove those that have ended; Slurm may be away for a while."""
    pause, noted = SHORTEST, set[str]()
    while left:
        try:
            held = held_jobs()
        except SlurmError as error:
            if str(error) not in noted:
                say("note:", f"{error}; still waiting")
            noted.add(str(error))
            time.sleep(LONGEST)
            continue
        news = _print_waiting(left, held, noted)
        ended = [run for run in left if run.has_ended(held)]
        deadline = time.monotonic() + LATE_FILES
        for run in ended:
            run.print_end(deadline)
            left.remove(run)
        changed = [run.print_change(held[run.job]) for run in left if run.job]
        pause = SHORTEST if news or ended or any(changed) else min(pause * 1.5, LONGEST)
        time.sleep(pause if left else 0)


def _print_waiting(left: Sequence[Awaited], held: Mapping[str, SlurmJob], noted: set[str]) -> bool:
    """Print once for each reason why jobs wait that may keep them for ever; returns whether there is a new one."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for job in dict.fromkeys(run.job for run in left if run.job in held):
        if held[job].state == "PENDING" and held[job].reason not in noted and not EXPECTED.fullmatch(held[job].reason):
            waiting[held[job].reason].append(job)
    for reason, jobs in waiting.items():
        why = f"{reason}, which man squeue explains; for other options: {cancel_command(jobs)}, then repeat"
        say("note:", f"{counted(len(jobs), 'job')} waiting ({listed(jobs, 3)}): {why}")
    noted.update(waiting)
    return bool(waiting)
