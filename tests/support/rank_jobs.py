"""Runs the jobs of a file one after the other, as one of the processes that torchrun starts.

A second argument is the number of seconds after which a process that does not answer is gone.
"""

import json
import sys
from pathlib import Path

from attnlab.config.job_config import job_config
from attnlab.launch.run_job import run_job
from attnlab.learn.devices import process_group

if __name__ == "__main__":
    raws = json.loads(Path(sys.argv[1]).read_text())
    if len(sys.argv) > 2:
        process_group.ANSWER_SECONDS = float(sys.argv[2])
    sys.exit(max(run_job(job_config(raw), quiet=True) for raw in raws))
