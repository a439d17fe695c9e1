"""The function that a job of submitit runs: runs of a sweep, with signals that put the job back into the queue.

Before its time is over, a job gets SIGUSR2 (submitit asks Slurm for it), and on some clusters SIGUSR1: its runs are
saved after the step, and submitit puts the job back into the queue, as long as `max_num_timeout` allows. SIGTERM is
Slurm's notice of a preemption, after which it puts the job back itself, or of scancel: the runs are saved too.
"""

import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from submitit import JobEnvironment
from submitit.helpers import Checkpointable

from attnlab.launch.run_job import JobTask, say
from attnlab.launch.visible_gpus import visible_gpus
from attnlab.launch.worker_pool import WorkerPool
from attnlab.launch.worker_process import Worker
from attnlab.learn.devices.usable_cores import threads_of_environment
from attnlab.learn.stop_signals import PASSED_ON
from attnlab.run.run_folder import is_finished

PUT_BACK_SECONDS = 60.0
"""within which a job that is put back into the queue is ended by Slurm"""


@dataclass
class WorkerTask(Checkpointable):
    """A task of an array, pickled by submitit; after a time-out it is put into the queue as it is.

    runs: that it trains, at once; with threads, unless the job has OMP_NUM_THREADS.
    argv: the program and the arguments of the sweep, which every result records.
    """

    runs: Sequence[JobTask]
    argv: Sequence[str]

    def __call__(self) -> int:
        """Train the runs that are not finished; a SystemExit with the code of one that fails, so that the job fails."""
        environment = JobEnvironment()
        put_back = signal.getsignal(getattr(signal, f"SIG{environment.USR_SIG}"))
        sys.argv = list(self.argv)  # submitit's are there
        runs = [run for run in self.runs if not is_finished(run.job)]
        runs = [replace(run, threads=None) for run in runs] if threads_of_environment() else runs
        for run in runs:
            say(run.label, f"job {environment.job_id} on {environment.hostname}")

        def train() -> int:
            if len(self.runs) == 1:
                return runs[0].run() if runs else 0
            pool = WorkerPool(runs, len(runs), visible_gpus(), "hydra.launcher.mem_gb=... asks for more")
            return pool.run() or max(pool.codes.values(), default=0)

        code = Worker().run(train)
        if code - 128 in PASSED_ON and callable(put_back):
            say("", "the job goes back into the queue, if it may, and goes on by itself")
            put_back(code - 128, None)
            # Submitit returns in the other processes of a run. Their exit would end the job before it is back.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            time.sleep(PUT_BACK_SECONDS)
        if code:
            raise SystemExit(code)
        return 0
