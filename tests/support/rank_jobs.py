"""Runs the jobs of a file one after the other, as one of the processes that torchrun starts."""

import json
import sys
from pathlib import Path

from attnlab.config.job_config import job_config
from attnlab.launch.run_job import run_job

if __name__ == "__main__":
    raws = json.loads(Path(sys.argv[1]).read_text())
    sys.exit(max(run_job(job_config(raw), quiet=True) for raw in raws))
