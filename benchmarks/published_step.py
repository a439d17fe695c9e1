"""SCAN training step against the step of Csordas et al. 2021's published code, in turns in one process.

The published step is a baseline of our own after their code (benchmarks/harness/published_network.py): batch 256, width
128, 3 + 3 layers, float32. All contestants take one step each in turn (A B C A B C ...), without Lightning:

published  on batches of the task's own order
same       our step of `--model` on the same batches: the ratio is of the two times of one batch
bucketed   our step with train.bucket_window. A window of so many batches holds the same examples sorted by length, so
           the ratio is of the times of whole windows: the same examples, each read once by both

A ratio is a median over the batches or windows, with its 95 % interval (from six on: where `--seconds` is too short for
six windows, there is none). Padding is part of the time: the
published code has no bucketed batches. Bucketing changes what is trained (order of the examples).

    python -m benchmarks.published_step
    python -m benchmarks.published_step --model linear_l2_ortho --threads 1
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, islice

import numpy as np

from attnlab.config.message_text import counted
from attnlab.config.schema import Config
from attnlab.data.batch import Batch
from attnlab.data.batch_order import Order
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.published_network import PublishedNetwork, PublishedSizes, published_stepper
from benchmarks.harness.tables import Row, show
from benchmarks.harness.timing import Timings, median_interval, progress, settle, timed_turns
from benchmarks.harness.workload import Workload, make_workload, step_of_batches

PUBLISHED, SAME, BUCKETED = "published", "same", "bucketed"
WARM = 2


@dataclass(frozen=True)
class Windows:
    """Seconds of every step: for each contestant a list of windows, each a list of steps in the order of batches."""

    seconds: Mapping[str, Sequence[Sequence[float]]]

    @property
    def steps(self) -> Timings:
        """The steps of all windows, for contestants on the same batches."""
        return Timings({name: list(chain(*windows)) for name, windows in self.seconds.items()})

    @property
    def sums(self) -> Timings:
        """Whole windows, for contestants that read the same examples in a window."""
        return Timings({name: list(map(sum, windows)) for name, windows in self.seconds.items()})


def sizes_of(config: Config) -> PublishedSizes:
    """The published sizes, with the sizes of a configuration where it has others (small networks of tests)."""
    separate = config.backbone
    return PublishedSizes(
        width=separate.d_model,
        heads=separate.n_heads,
        layers=separate.n_layers,
        feed_forward=separate.d_feed_forward,
        dropout=separate.dropout,
        lr=config.optim.lr,
        clip_norm=config.optim.clip_norm,
    )


def from_the_start(workload: Workload, warm: int = WARM) -> Iterator[Batch]:
    """Batches from number 0 on, after the first ones for steps that are not measured."""
    order = workload.order
    return chain(islice(workload.batches(order), warm), workload.batches(order))


def require_same_examples(plain: Order, bucketed: Order, first: int, window: int) -> None:
    """Raises SystemExit unless a window of both orders holds the same examples."""
    numbers = range(first, first + window)
    read = [np.sort(np.concatenate([order[number] for number in numbers])) for order in (plain, bucketed)]
    if not np.array_equal(*read):
        raise SystemExit(f"batches {first} to {numbers[-1]} hold other examples with train.bucket_window={window}")


def in_turns(
    runs: Mapping[str, Callable[[], object]], window: int, seconds: float, before: Callable[[int], None]
) -> Windows:
    """Times one step of each contestant in turn, in whole windows, as many as fit into `seconds`, at least one.

    Args:
        window: steps of a window.
        before: called with the number of the first batch of every window, untimed.
    """
    for name, run in runs.items():
        progress(f"starting {name}")
        for _ in range(WARM):
            run()
    collected: dict[str, list[list[float]]] = {name: [] for name in runs}
    for number, shown in enumerate(timed_turns(seconds, 1, "window")):
        before(number * window)
        for name in runs:
            collected[name].append([])
        for step in range(window):
            for name, run in runs.items():
                settle()
                begun = time.perf_counter()
                run()
                settle()
                collected[name][-1].append(time.perf_counter() - begun)
            progress(f"{shown}, step {step + 1} of {window}")
    progress(None)
    return Windows(collected)


def rows_of(result: Windows, window: int, batch: int, model: str) -> list[Row]:
    """Returns a row per contestant."""
    steps, sums = result.steps, result.sums
    rows = []
    for name, kind, times in ((PUBLISHED, "", steps), (SAME, "step", steps), (BUCKETED, "window", sums)):
        faster = times.ratios(PUBLISHED, name)
        rows.append(
            {
                "step": "Csordas et al. 2021" if name == PUBLISHED else model,
                "batches": f"train.bucket_window={window}" if name == BUCKETED else "as published",
                "batch": batch,
                "ms a step": 1000 * sums.median(name) / window,
                "examples/s": batch * window / sums.median(name),
                "times as fast": times.ratio(PUBLISHED, name),
                "95 % interval": "" if name == PUBLISHED else median_interval(faster).text(),
                "of": counted(len(faster), kind) if kind else "",
            }
        )
    return rows


def measure(model: str, window: int, overrides: Sequence[str], seconds: float) -> tuple[Config, list[Row]]:
    """Returns the configuration of the compared step, and a row per contestant."""
    plain = make_workload("scan", model, overrides)
    bucketed = make_workload("scan", model, [*overrides, f"train.bucket_window={window}"], prepared=plain.prepared)
    sizes = sizes_of(plain.config)
    network = PublishedNetwork(plain.prepared.spec, sizes)
    runs = {
        PUBLISHED: published_stepper(network, sizes, from_the_start(plain)),
        SAME: step_of_batches(plain, from_the_start(plain)),
        BUCKETED: step_of_batches(bucketed, from_the_start(bucketed)),
    }
    orders = plain.order, bucketed.order
    result = in_turns(runs, window, seconds, lambda first: require_same_examples(*orders, first, window))
    return plain.config, rows_of(result, window, plain.config.train.batch_size, model)


def main() -> None:
    options = parser(__doc__, seconds=240)
    options.add_argument("--model", default="vanilla", help="of our step (default: %(default)s, the same function)")
    options.add_argument("--window", type=int, default=32, help="train.bucket_window (default: %(default)s)")
    options.add_argument("overrides", nargs="*", metavar="key=value", help="settings of both, as for train.py")
    arguments = options.parse_args()
    environment = begin(arguments.threads)
    config, rows = measure(arguments.model, arguments.window, arguments.overrides, arguments.seconds)
    published = replace(PublishedSizes(), longest=0) == replace(sizes_of(config), longest=0)
    words = f" ({' '.join(arguments.overrides)})" if arguments.overrides else ""
    show("published_step", f"SCAN step against the published one{words}", rows, environment)
    if not published:
        named = ", ".join(f.name for f in fields(PublishedSizes) if f.name != "longest")
        print(f"not the published sizes ({named}): this says nothing about the target")


if __name__ == "__main__":
    main()
