"""A real run of `python train.py`, or a pack of several seeds, stopped after `--seconds` of training.

Everything that a run does is in the time: data loader, Lightning, logs, validation and checkpoints where the task has
them; not the test at the end. Steps are read from the runs' metrics.csv while they train, and the runs are stopped by
the signal that stops any run (SIGTERM), so they save their state. Their folders are temporary.

ms a step      of all members together, in the second half of the time; it is the mean of "over steps" steps, and
               compiling a new length counts where it falls into that half
first step s   from the call until the first logged step: data, network, compiling
peak memory    on a GPU what torch's allocator reserved, which replayed CUDA graphs count in too; on a CPU resident

    python -m benchmarks.training_run --task scan --seconds 300
    python -m benchmarks.training_run --task sort_of_clevr --members 5 --compile both
"""

import gc
import os
import signal
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from attnlab.launch.train_cli import train_main
from attnlab.learn.devices import memory_use
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.peak_memory import process_peak
from benchmarks.harness.tables import Row, show
from benchmarks.harness.workload import COMPILED

FORMS = {"no": (False,), "yes": (True,), "both": (False, True)}
STOPPED = 128 + signal.SIGTERM
TAIL = 4096
"""bytes of metrics.csv that surely hold its last row"""


@dataclass(frozen=True)
class Point:
    """Seconds since the start, and the last logged step of every member that has one."""

    seconds: float
    steps: tuple[int, ...]


def last_step(file: Path) -> int | None:
    """Returns the step of the last complete row of a metrics.csv; None without one."""
    with file.open("rb") as rows:
        rows.seek(max(0, file.stat().st_size - TAIL))
        lines = rows.read().rpartition(b"\n")[0].splitlines()
    step = lines[-1].partition(b",")[0] if lines else b""
    return int(step) if step.isdigit() else None


def last_loss(file: Path) -> float:
    """Returns the last logged training loss."""
    rows = [line.split(",") for line in file.read_text().splitlines()]
    return float(next(value for _, name, value in reversed(rows) if name == "train/loss"))


def second_half(points: Sequence[Point]) -> tuple[float, int]:
    """Returns the seconds and the steps of all members in the second half of the time.

    Raises:
        SystemExit: fewer than two logged steps.
    """
    if len(points) < 2:
        raise SystemExit("fewer than two steps were logged in time; give more --seconds or a smaller train.log_every")
    middle = (points[0].seconds + points[-1].seconds) / 2
    # the last point before the middle, so that there are two
    first = [point for point in points[:-1] if point.seconds <= middle][-1]
    return points[-1].seconds - first.seconds, sum(points[-1].steps) - sum(first.steps)


def rate(points: Sequence[Point], members: int) -> float:
    """Returns the seconds of a step of all members, over the second half of the time.

    Members that train one after another (a pack that was halved) count as the steps that they made.
    """
    seconds, steps = second_half(points)
    return members * seconds / steps


@dataclass
class Watch:
    """Reader of the logged steps in a second thread, which stops the training in time.

    Args:
        runs: folder of the runs.
        seconds: of training, counted from the first logged step.
        report: seconds between two lines of progress.
    """

    runs: Path
    seconds: float
    report: float = 30.0
    points: list[Point] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.started = self.reported = time.monotonic()

    def watch(self) -> None:
        """Reads the steps until the training has ended; asks it once to stop."""
        asked = False
        while not self.ended.wait(min(1.0, self.seconds / 10)):
            self.look()
            if not asked and self.points and self.points[-1].seconds - self.points[0].seconds >= self.seconds:
                asked = True
                os.kill(os.getpid(), signal.SIGTERM)

    def look(self) -> None:
        """Adds a point if a step has been logged since the last one."""
        found = tuple(filter(None, map(last_step, sorted(self.runs.rglob("metrics.csv")))))
        if not found or (self.points and sum(found) <= sum(self.points[-1].steps)):
            return
        now = time.monotonic()
        self.points.append(Point(now - self.started, found))
        if now - self.reported >= self.report and len(self.points) > 1:
            self.reported = now
            ms = 1000 * rate(self.points, len(found))
            print(
                f"  {now - self.started:.0f} s: step {max(found)}, {ms:.2f} ms a step of all {len(found)}", flush=True
            )


def words_of(given: Namespace, compiled: bool, runs: Path) -> list[str]:
    """Returns the command line of the run or pack."""
    seeds = ",".join(map(str, range(given.members)))
    pack = ["-m", "hydra/launcher=packed", f"seed={seeds}"] if given.members > 1 else ["seed=0"]
    trainer = [f"trainer.device={given.device.type}", f"trainer.threads={given.threads}", "trainer.progress=none"]
    more = [COMPILED] * compiled + ["logger=csv", f"paths.runs={runs}"]
    return [*pack, f"task={given.task}", f"model={given.model}", *trainer, *more, *given.overrides]


def measure(given: Namespace, compiled: bool) -> Row:
    """Trains and returns the row.

    Raises:
        SystemExit: the training failed, or logged too few steps.
    """
    with tempfile.TemporaryDirectory(prefix="attnlab-runs-") as folder:
        words, watch = words_of(given, compiled, Path(folder)), Watch(Path(folder), given.seconds)
        print(f"python train.py {' '.join(words)}", flush=True)
        forget_memory(given.device)
        # A signal that comes after the end of the training must not end the measurement.
        former = signal.signal(signal.SIGTERM, lambda *_: None)
        watcher = threading.Thread(target=watch.watch, daemon=True)
        watcher.start()
        try:
            code = train_main(words)
        except SystemExit as left:
            code = left.code
        finally:
            watch.ended.set()
            watcher.join()
            signal.signal(signal.SIGTERM, former)
        if code not in (0, STOPPED):
            raise SystemExit(f"the training ended with exit code {code}")
        watch.look()
        losses = [last_loss(file) for file in Path(folder).rglob("metrics.csv")]
    seconds = rate(watch.points, given.members)
    return {
        "task": given.task,
        "model": given.model,
        "way": "packed" if given.members > 1 else "single",
        "members": given.members,
        "trained": len(watch.points[-1].steps),
        "compiled": "yes" if compiled else "no",
        "steps": max(watch.points[-1].steps),
        "first step s": watch.points[0].seconds,
        "ms a step of all": 1000 * seconds,
        "over steps": second_half(watch.points)[1] // given.members,
        "steps/s of all": given.members / seconds,
        "peak memory GB": process_peak(given.device, compiled=True) / 1e9,
        "loss": sum(losses) / len(losses),
        "ended": "finished" if code == 0 else "stopped",
    }


def forget_memory(device: torch.device) -> None:
    """Gives back what an earlier form holds and starts the peak anew, so that the next form's peak is its own."""
    gc.collect()
    if device.type == "cuda":
        # torch keeps no statistics of a device before its first use
        torch.cuda.init()
        torch.cuda.empty_cache()
    memory_use.reset_peak_memory(device)


def main() -> None:
    options = parser(__doc__, seconds=300, devices=True)
    options.add_argument("--task", default="scan", help="(default: %(default)s)")
    options.add_argument("--model", default="linear_l2_ortho", help="(default: %(default)s)")
    options.add_argument("--members", type=int, default=1, help="seeds of a pack; 1: a single run (default: 1)")
    options.add_argument("--compile", choices=FORMS, default="no", help="compiled steps (default: %(default)s)")
    options.add_argument("overrides", nargs="*", metavar="key=value", help="settings, as for train.py")
    given = options.parse_args()
    environment, rows = begin(given.threads, given.device), list[Row]()
    forms = FORMS[given.compile]
    words = f" ({' '.join(given.overrides)})" if given.overrides else ""
    way = "packed" if given.members > 1 else "single"
    for compiled in forms:
        try:
            rows.append(measure(given, compiled))
        except SystemExit as error:
            # the other form may still run
            print(f"{COMPILED if compiled else 'eager'}: {error}", file=sys.stderr, flush=True)
            continue
        show(f"training_{given.task}_{way}", f"Training runs, {given.task}{words}", rows, environment)
    if len(rows) < len(forms):
        sys.exit(1)


if __name__ == "__main__":
    main()
