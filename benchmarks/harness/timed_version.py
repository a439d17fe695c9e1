"""Process that times training steps of one version of the code, when asked: the child of benchmarks.against_commit.

Started as `python -P timed_version.py <json>` with the version's folders in PYTHONPATH, so `attnlab` and
`benchmarks.harness.workload` are that version's own; this file is always the present one and needs no more of them than
`make_workload` and `stepper`. Each line on standard input is a number of steps; each answer is a line of JSON on
standard output: seconds, examples read and the mean loss.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    wanted: dict[str, Any] = json.loads(sys.argv[1])
    # Only answers go to the pipe; what the version prints goes to the log.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    import attnlab
    from benchmarks.harness.workload import make_workload, stepper

    for module in (attnlab.__file__, sys.modules["benchmarks.harness.workload"].__file__):
        if not Path(module).resolve().is_relative_to(Path(wanted["tree"]).resolve()):
            raise SystemExit(f"{module} is not the code of {wanted['tree']}")
    import torch

    torch.set_num_threads(wanted["threads"])
    torch.manual_seed(0)
    workload = make_workload(wanted["task"], wanted["model"], wanted["overrides"])
    step, order, done = stepper(workload), workload.order, 0
    for line in iter(sys.stdin.readline, ""):
        steps = int(line)
        begun = time.perf_counter()
        losses = [step() for _ in range(steps)]
        seconds = time.perf_counter() - begun
        examples = sum(len(order[number]) for number in range(done, done + steps))
        done += steps
        answers.write(json.dumps({"seconds": seconds, "examples": examples, "loss": float(sum(losses)) / steps}) + "\n")


if __name__ == "__main__":
    main()
