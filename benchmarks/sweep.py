"""Seconds of a whole sweep of `experiment=quickstart`, with several jobs at once and with one after the other.

Both ways are whole commands, start and table included, each into an empty folder, in turns; data is prepared before.
The first is hydra/launcher=joblib, which a machine without a GPU chooses by itself, the second hydra/launcher=basic.
Runs are shortened by train.max_steps. Words are added to both commands: with trainer.threads=null a run alone has all
cores.

    python -m benchmarks.sweep --jobs 12 --steps 100
"""

import statistics
from collections.abc import Sequence

from attnlab.learn.devices.usable_cores import usable_cores
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.tables import show
from benchmarks.harness.timing import progress
from benchmarks.startup import command_seconds

WAYS = {"at once": "hydra/launcher=joblib", "one after the other": "hydra/launcher=basic"}


def seconds(jobs: int, words: Sequence[str]) -> float:
    """Returns the seconds of a sweep over so many seeds."""
    return command_seconds(["-m", "experiment=quickstart", f"seed=range(0,{jobs})", "logger=csv", *words])


def rows(jobs: int, steps: int, turns: int, words: Sequence[str]) -> list[dict[str, object]]:
    """Returns a row for each way."""
    seconds(1, ["train.max_steps=1", *words])
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(turns):
        for way, launcher in WAYS.items():
            progress(f"turn {turn + 1}, {jobs} jobs {way}")
            found[way].append(seconds(jobs, [f"train.max_steps={steps}", launcher, *words]))
    progress(None)
    alone = found["one after the other"]
    return [
        {
            "jobs": f"{jobs} {way}",
            "steps": steps,
            "cores": usable_cores(),
            "seconds": statistics.median(taken),
            "times as fast": statistics.median(slow / fast for slow, fast in zip(alone, taken, strict=True)),
            "turns": turns,
            "words": " ".join(words),
        }
        for way, taken in found.items()
    ]


def main() -> None:
    options = parser(__doc__, seconds=0)
    options.add_argument("--jobs", type=int, default=12, help="of the sweep (default: %(default)s)")
    options.add_argument("--steps", type=int, default=100, help="of each run (default: %(default)s)")
    options.add_argument("--turns", type=int, default=1, help="of both ways (default: %(default)s)")
    options.add_argument("words", nargs="*", help="added to both commands")
    given = options.parse_args()
    environment = begin(given.threads)
    title = "A sweep of quickstart runs, whole commands"
    show("sweep", title, rows(given.jobs, given.steps, given.turns, given.words), environment)


if __name__ == "__main__":
    main()
