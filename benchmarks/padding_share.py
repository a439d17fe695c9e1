"""Share of padding in training batches at each task's own sizes, and the number of shapes of compiled steps.

Shares are of all positions of the first 200 batches, inputs and outputs, after `train.max_tokens` has split them;
shapes are of one epoch. `rounded` is what `trainer.compile` makes of them: lengths padded up to a few. No time is
measured, so the table is the same on every machine.

    python -m benchmarks.padding_share --tasks scan,pcfg --windows 8,32
    python -m benchmarks.padding_share --tasks pcfg task.split=small_10k
"""

from argparse import Namespace
from collections.abc import Iterator

from attnlab.data.batch_order import BatchOrder
from attnlab.data.length_padding import LengthBuckets, padding_share
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.tables import show
from benchmarks.harness.workload import Workload, make_workload

TASKS = "scan,mathematics,pcfg,lra_listops,lra_text,glue"


def measure(workload: Workload, window: int | None) -> dict[str, object]:
    """Returns shares of padding in percent and numbers of shapes, exact and rounded."""
    examples, train = workload.prepared.subsets["train"], workload.config.train
    extents, buckets = examples.extents(), LengthBuckets(examples)
    order = BatchOrder(
        workload.prepared.train_groups,
        train.batch_size,
        workload.config.seed,
        extents=extents,
        window=window,
        tokens=train.batch_tokens,
    )
    share, rounded = (
        padding_share(order, examples, max_tokens=train.max_tokens, rounded=rounded) for rounded in (False, True)
    )
    widths = {tuple(extents[order[number]].max(0).tolist()) for number in range(order.batches_per_epoch)}
    return {
        "padding %": 100 * share,
        "shapes": len(widths),
        "rounded: padding %": 100 * rounded,
        "rounded: shapes": len(set(map(buckets.sizes, widths))),
    }


def of_tasks(given: Namespace) -> Iterator[dict[str, object]]:
    """Measures a row per task and window."""
    for task in given.tasks.split(","):
        workload = make_workload(task, "linear", given.overrides, little=False)
        for window in (None, *map(int, given.windows.split(","))):
            batch = workload.config.train.batch_size
            yield {"task": task, "batch": batch, "window": window or "none"} | measure(workload, window)


def main() -> None:
    options = parser(__doc__, seconds=0)
    options.add_argument("--tasks", default=TASKS, help="with lengths (default: %(default)s)")
    options.add_argument("--windows", default="8,32", help="train.bucket_window, beside none (default: %(default)s)")
    options.add_argument("overrides", nargs="*", metavar="key=value", help="settings, as for train.py")
    given = options.parse_args()
    environment, rows = begin(given.threads), of_tasks(given)
    settings = f" ({' '.join(given.overrides)})" if given.overrides else ""
    show("padding", f"Padding{settings}", rows, environment)


if __name__ == "__main__":
    main()
