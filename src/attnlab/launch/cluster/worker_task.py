"""The function that a job of submitit runs: a job of a sweep, with signals that put it back into the queue.

Before its time is over, a job gets SIGUSR2 (submitit asks Slurm for it), and on some clusters SIGUSR1: its run is
saved at the end of the step, recorded as stopped, and submitit puts the job back into the queue, as long as
`max_num_timeout` allows. SIGTERM is Slurm's notice of a preemption or of scancel: the run is saved too; a preempted job
is put back by Slurm itself, a cancelled one has ended.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnlab.launch.run_job import JobTask, say
from attnlab.launch.worker_process import Worker
from attnlab.learn.stop_signals import PASSED_ON

PUT_BACK_SECONDS = 60.0
"""within which a job that is put back into the queue is ended by Slurm"""


class WorkerTask:
    """A job of a sweep, pickled by submitit.

    Args:
        argv: the program and the arguments of the sweep, which every result records.
    """

    def __init__(self, task: JobTask, argv: Sequence[str]) -> None:
        self.task, self.argv = task, list(argv)

    def checkpoint(self) -> Any:
        """What submitit puts into the queue after a time-out: the same task, which goes on where it stopped."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def __call__(self) -> int:
        """Run the job; returns 0.

        Raises:
            SystemExit: it is not finished; with its exit code, so that Slurm calls the job failed.
        """
        from submitit import JobEnvironment

        environment = JobEnvironment()
        put_back = signal.getsignal(getattr(signal, f"SIG{environment.USR_SIG}"))
        # There, sys.argv holds the arguments of submitit.
        sys.argv = list(self.argv)
        if environment.global_rank == 0:
            say(self.task.label, f"job {environment.job_id} on {environment.hostname}")
        code = Worker().run(replace(self.task, threads=cores_of_task()).run)
        if code - 128 in PASSED_ON and callable(put_back):
            say(self.task.label, "the job goes back into the queue, if it may, and goes on by itself")
            put_back(code - 128, None)
            # Submitit returns in the other processes of a run. Their exit would end the job before it is back.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            time.sleep(PUT_BACK_SECONDS)
        if code:
            raise SystemExit(code)
        return 0


def cores_of_task() -> int | None:
    """Cores that Slurm gave to this process; None if OMP_NUM_THREADS names the threads, or outside of Slurm."""
    if os.environ.get("OMP_NUM_THREADS"):
        return None
    if text := os.environ.get("SLURM_CPUS_PER_TASK"):
        return int(text)
    cores, tasks = (os.environ.get(name) for name in ("SLURM_CPUS_ON_NODE", "SLURM_STEP_TASKS_PER_NODE"))
    # tasks per node: `2(x4)` stands for two on each of four nodes
    return max(1, int(cores) // int((tasks or "1").partition("(")[0].partition(",")[0])) if cores else None
