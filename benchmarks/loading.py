"""How long a training step waits for its batch, at each task's own sizes, without worker processes.

Gathering a batch and taking a training step on one that is there are timed in turn; `share` is gathering / (gathering +
step), the part of a run's time that is spent waiting for data. Prepares what is not prepared yet, before the timing.

    python -m benchmarks.loading --tasks scan,pcfg,lra_text
    python -m benchmarks.loading --tasks wikitext103 train.batch_size=8
"""

import itertools
import statistics

import torch

from benchmarks.harness.environment import begin, parser
from benchmarks.harness.tables import show
from benchmarks.harness.timing import interleaved
from benchmarks.harness.workload import Workload, make_workload, stepper

TASKS = "scan,sort_of_clevr,mathematics,pcfg,lra_listops,lra_text,lra_image,flip_flop"


def measure(workload: Workload, seconds: float, what: str) -> dict[str, object]:
    """Returns milliseconds for gathering and for a step, and the share of gathering."""
    examples, order, numbers = workload.prepared.subsets["train"], workload.order, itertools.count()
    times = interleaved(
        {"gather": lambda: examples.batch(order[next(numbers)]), "step": stepper(workload, waits=False)},
        seconds,
        what,
        least=3,
    )
    gather, step = times.median("gather"), times.median("step")
    share = statistics.median(a / (a + b) for a, b in zip(times.seconds["gather"], times.seconds["step"], strict=True))
    return {"gather ms": 1000 * gather, "step ms": 1000 * step, "share %": 100 * share}


def main() -> None:
    options = parser(__doc__, seconds=20)
    options.add_argument("--tasks", default=TASKS, help="(default: %(default)s)")
    options.add_argument("--model", default="linear_l2", help="a quick one waits longest (default: %(default)s)")
    options.add_argument("overrides", nargs="*", metavar="key=value", help="settings, as for train.py")
    given = options.parse_args()
    environment = begin(given.threads)

    def row(task: str) -> dict[str, object]:
        workload = make_workload(task, given.model, given.overrides)
        torch.set_num_threads(given.threads)
        return {"task": task, "batch": workload.order.batch_size, **measure(workload, given.seconds, task)}

    rows = map(row, given.tasks.split(","))
    settings = f" ({' '.join(given.overrides)})" if given.overrides else ""
    show("loading", f"Waiting for data, {given.model}{settings}", rows, environment)


if __name__ == "__main__":
    main()
