"""Seconds until the command line answers, of a whole one-step run, and of one more job in a sweep.

1. Help, a config error, a bare import; beside Python itself, torch, and the imports of a run. Every command is a new
   process, in turns, with the files in the cache of the system (the first turn is not counted).
2. Whole runs of one step (`debug=smoke`, logger=csv, trainer=cpu), each into an empty folder: start, data, one step,
   the test on all of SCAN's test sets, result.
3. One more job of a serial sweep: (seconds of a sweep of N one-step jobs - seconds of the same sweep of one) / (N - 1).
   On SCAN it includes the final test; on flip-flop, at sizes where a step and a test take no time, it is only overhead.

    python -m benchmarks.startup --parts answers
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.harness.environment import begin, parser
from benchmarks.harness.tables import show
from benchmarks.harness.timing import interleaved, progress

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "python -c 'import attnlab'": ["-c", "import attnlab"],
    "python train.py --help": ["train.py", "--help"],
    "python train.py model=linar (config error)": ["train.py", "model=linar"],
    "python -c 'import torch'": ["-c", "import torch"],
    "all that a run imports": ["-c", "import attnlab.run.train_run"],
}
ONE_STEP = ("model=linear_l2_ortho", "debug=smoke", "train.max_steps=1", "logger=csv", "trainer=cpu")
TASKS = {
    "scan": ("task=scan",),
    "flip_flop": ("task=flip_flop", "task.length=16", "task.train_sequences=64", "task.test_sequences=8"),
}


def starter(arguments: Sequence[str]) -> Callable[[], subprocess.CompletedProcess]:
    return lambda: subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, check=False)


def answers(seconds: float) -> list[dict[str, object]]:
    """Part 1: a row per command."""
    runs = {name: starter(arguments) for name, arguments in COMMANDS.items()}
    codes = {name: run().returncode for name, run in runs.items()}
    times = interleaved(runs, seconds, "starting")
    return [
        {"started": name, "exit code": codes[name], "seconds": times.median(name), "starts": len(times.seconds[name])}
        for name in COMMANDS
    ]


def whole(task: str, jobs: int, threads: int) -> float:
    """Returns the seconds of a serial sweep of one-step jobs (one job: a single run), into an empty folder."""
    sweep = ["-m", "hydra/launcher=basic", f"seed={','.join(map(str, range(jobs)))}"] if jobs > 1 else []
    words = [*sweep, *TASKS[task], *ONE_STEP, f"trainer.threads={threads}"]
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "train.py", *words, f"paths.runs={folder}"]
        begun = time.perf_counter()
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
        taken = time.perf_counter() - begun
    if done.returncode:
        raise RuntimeError(f"{' '.join(line)} failed:\n{done.stderr[-2000:]}")
    return taken


def runs(jobs: int, turns: int, threads: int) -> list[dict[str, object]]:
    """Parts 2 and 3: a row per task."""
    rows = []
    for task in TASKS:
        # The first run prepares the data, which later runs read from the cache.
        whole(task, 1, threads)
        result: dict[int, list[float]] = {1: [], jobs: []}
        for turn in range(turns):
            for number, times in result.items():
                progress(f"{task}: turn {turn + 1}, {number} one-step jobs")
                times.append(whole(task, number, threads))
        more = [(many - item) / (jobs - 1) for item, many in zip(result[1], result[jobs], strict=True)]
        rows.append(
            {
                "task": task,
                "one run s": statistics.median(result[1]),
                f"sweep of {jobs} s": statistics.median(result[jobs]),
                "one more job s": statistics.median(more),
                "turns": turns,
            }
        )
    progress(None)
    return rows


def main() -> None:
    options = parser(__doc__, seconds=20)
    options.add_argument("--parts", default="answers,runs", help="(default: %(default)s)")
    options.add_argument("--jobs", type=int, default=4, help="of the sweep (default: %(default)s)")
    options.add_argument("--turns", type=int, default=3, help="of the runs (default: %(default)s)")
    arguments = options.parse_args()
    environment = begin(arguments.threads)
    if "answers" in arguments.parts:
        show("startup", "Start-up", answers(arguments.seconds), environment)
    if "runs" in arguments.parts:
        title = "Whole runs of one step, and one more job of a sweep"
        show("startup_runs", title, runs(arguments.jobs, arguments.turns, arguments.threads), environment)


if __name__ == "__main__":
    main()
