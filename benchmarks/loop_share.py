"""Share of a run that is not its training steps: Lightning's loop, callbacks, recording, checkpoints, final test.

Runs `train.py` in this process with hooks around every optimiser step. The step contains forward, backward, the check
of the gradients and clipping, as Lightning calls them inside it. The run begins at its first step and ends with its
result; imports and preparation of data come before.

    python -m benchmarks.loop_share
    python -m benchmarks.loop_share experiment=quickstart train.max_steps=300
"""

import json
import tempfile
import time
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from attnlab.launch.train_cli import train_main
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.tables import Row, show

QUICKSTART = ["experiment=quickstart"]


class StepClock:
    """Seconds of all optimiser steps of this process, and the first one's beginning."""

    def __init__(self) -> None:
        self.first = self.begun = self.seconds = self.last = 0.0
        self.steps = 0
        register_optimizer_step_pre_hook(self._begin)
        register_optimizer_step_post_hook(self._end)

    def _begin(self, optimizer: torch.optim.Optimizer, *given: object) -> None:
        self.begun = time.perf_counter()
        self.first = self.first or self.begun

    def _end(self, optimizer: torch.optim.Optimizer, *given: object) -> None:
        self.last = time.perf_counter()
        self.seconds += self.last - self.begun
        self.steps += 1


def share_of(overrides: list[str]) -> Row:
    """Returns the shares of one run, which is trained from its first step.

    Raises:
        RuntimeError: the run did not finish.
    """
    clock = StepClock()
    with tempfile.TemporaryDirectory() as folder:
        code = train_main([*overrides, f"paths.runs={folder}", "logger=csv"])
        ended = time.perf_counter()
        found = [json.loads(file.read_text()) for file in Path(folder).rglob("result.json")]
    if code or len(found) != 1 or not clock.steps:
        raise RuntimeError("the run did not finish; its message stands above")
    whole = ended - clock.first
    return {
        "run": " ".join(overrides),
        "steps": clock.steps,
        "seconds": whole,
        "ms a step": 1000 * clock.seconds / clock.steps,
        "steps %": 100 * clock.seconds / whole,
        "between steps %": 100 * (clock.last - clock.first - clock.seconds) / whole,
        "after the last step %": 100 * (ended - clock.last) / whole,
        "outside %": 100 * (whole - clock.seconds) / whole,
    }


def main() -> None:
    options = parser(__doc__, seconds=0)
    options.add_argument("overrides", nargs="*", metavar="key=value", help="as for train.py (default: the quickstart)")
    given = options.parse_args()
    environment = begin(given.threads)
    show("loop_share", "Time outside the training steps", [share_of(given.overrides or QUICKSTART)], environment)


if __name__ == "__main__":
    main()
