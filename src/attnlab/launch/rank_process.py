"""One process of a run on several devices, which rank 0 has started (`launch.rank_processes`).

The job comes as JSON on standard input; the variables of torchrun say which rank this is.
"""

import json
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from attnlab.config.job_config import typed_job
from attnlab.launch.run_job import run_job

_WATCH_SECONDS = 0.5


def main() -> int:
    """Run the job of standard input as one of its ranks; returns the exit code."""
    task = json.load(sys.stdin)
    threading.Thread(target=_end_with, args=(task["parent"],), daemon=True).start()
    job = typed_job(task["raw"] | {"report": task["report"]}, Path(task["conf"]))
    trainer = replace(job.typed.trainer, threads=task["threads"])
    return run_job(replace(job, typed=replace(job.typed, trainer=trainer)), quiet=True)


def _end_with(parent: int) -> None:
    """End this process when rank 0 has ended, for whatever reason: it may wait for it in a collective operation."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
