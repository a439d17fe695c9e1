"""Greedy decoding: a whole evaluation, and the cost of a token by its position.

The weights are untrained and the end token's bias is so low that it is never chosen: every output runs as long as it
may, which is the worst case of one decoding. (Outputs that end too early and are right so far are decoded once more,
to judge them without their end: at worst everything twice.)

1. Evaluation of all 2,624 OOD sequences of SCAN at cutoff 26 by `attnlab.learn.evaluator`, as after a training. The
   models take turns, batch by batch.
2. Milliseconds a token at positions 1 to 736, the longest target of PCFG SET, at the task's own sizes: all models read
   one token after another in turns. "last / first" is the time of the last 32 tokens against that of the first 32, the
   median over the passes; one pass that is not counted comes before.

    python -m benchmarks.decode --parts position --tokens 200 backbone.n_layers=1
"""

import statistics
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from attnlab.learn.evaluator import Evaluator, evaluating, precision_context
from attnlab.learn.reporter import Reporter
from benchmarks.harness import synthetic_data
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.tables import show
from benchmarks.harness.timing import Timings, progress, settle
from benchmarks.harness.workload import Workload, make_workload

SUBSET, WINDOW = "test/ood", 32


def make_endless(workload: Workload) -> Workload:
    """Returns the workload with a network that never writes the end token."""
    with torch.no_grad():
        workload.network.output.linear.bias[workload.prepared.spec.end_id] = -1e9
    return workload


def in_order(workload: Workload, subset: str) -> list[np.ndarray]:
    """Returns the indices of the examples in each batch of an evaluation."""
    order = np.argsort(workload.prepared.subsets[subset].lengths, kind="stable")
    return np.array_split(
        order, range(workload.config.train.eval_batch_size, len(order), workload.config.train.eval_batch_size)
    )


def evaluated(workload: Workload, subset: str, numbers: np.ndarray) -> float:
    """Returns the seconds of evaluating one batch."""
    settle()
    begun = time.perf_counter()
    Evaluator(workload.config.train, workload.prepared, workload.network, Reporter("none")).subset(subset, numbers)
    return time.perf_counter() - begun


def evaluation(models: Sequence[str], inputs: Namespace) -> list[dict[str, object]]:
    """Part 1: a row per model."""
    workloads = {model: make_endless(make_workload("scan", model, inputs.overrides, inputs.device)) for model in models}
    first = workloads[models[0]]
    size, limit = len(first.prepared.subsets[SUBSET]), first.prepared.decode_limits[SUBSET]
    collected: dict[str, list[float]] = {name: [] for name in workloads}
    for numbers in in_order(first, SUBSET):
        for name, workload in workloads.items():
            collected[name].append(evaluated(workload, SUBSET, numbers))
            progress(f"decoding {size} sequences, {name}")
    progress(None)
    times = Timings(collected)
    return [
        {
            "model": name,
            "sequences": size,
            "tokens each": limit,
            "seconds": sum(times.seconds[name]),
            "sequences/s": size / sum(times.seconds[name]),
            f"time / {models[0]}": times.ratio(name, models[0]),
        }
        for name in workloads
    ]


def one_pass(workloads: Mapping[str, Workload], tokens: int, rows: int) -> dict[str, list[float]]:
    """Returns the seconds of every token, all models in turns."""
    collected: dict[str, list[float]] = {name: [] for name in workloads}
    states = {}
    for name, workload in workloads.items():
        batch = workload.prepared.subsets["train"].batch(np.arange(rows)).to(workload.device)
        with evaluating(workload.network), precision_context(workload.config.train.precision, workload.device):
            states[name] = workload.network.start(batch.inputs, batch.input_mask)
    for position in range(tokens):
        for name, workload in workloads.items():
            read = torch.full((rows,), workload.prepared.spec.end_id, device=workload.device)
            with evaluating(workload.network), precision_context(workload.config.train.precision, workload.device):
                settle()
                begun = time.perf_counter()
                _, states[name] = workload.network.step(read, states[name])
                settle()
                collected[name].append(time.perf_counter() - begun)
        progress(f"decoding token {position + 1} of {tokens}")
    return collected


def by_position(models: Sequence[str], inputs: Namespace) -> list[dict[str, object]]:
    """Part 2: a row per model."""
    prepared = synthetic_data.longest_of_pcfg(inputs.rows)
    workloads = {model: make_workload("pcfg", model, inputs.overrides, inputs.device, prepared) for model in models}
    one_pass(workloads, WINDOW, inputs.rows)
    passes = [one_pass(workloads, inputs.tokens, inputs.rows) for _ in range(inputs.passes)]
    progress(None)
    starts = sorted({round(share * (inputs.tokens - WINDOW)) for share in (0, 0.25, 0.5, 0.75, 1)})
    rows = []
    for name in workloads:
        windows = [[statistics.median(result[name][n : n + WINDOW]) for n in starts] for result in passes]
        middle = [statistics.median(times) for times in zip(*windows, strict=True)]
        rows.append(
            {"model": name}
            | {f"ms at {n + 1} to {n + WINDOW}": 1000 * t for n, t in zip(starts, middle, strict=True)}
            | {"last / first": statistics.median(times[-1] / times[0] for times in windows)}
        )
    return rows


def main() -> None:
    options = parser(__doc__, seconds=None, devices=True)
    options.add_argument("--parts", default="scan,position", help="(default: %(default)s)")
    options.add_argument("--models", default="linear,performer,transnormer_t2,vanilla", help="(default: %(default)s)")
    options.add_argument("--tokens", type=int, default=736, help="of part 2 (default: %(default)s)")
    options.add_argument("--rows", type=int, default=8, help="sequences of part 2 (default: %(default)s)")
    options.add_argument("--passes", type=int, default=3, help="of part 2 (default: %(default)s)")
    options.add_argument("overrides", nargs="*", metavar="key=value", help="settings, as for train.py")
    arguments = options.parse_args()
    environment, models, parts = (
        begin(arguments.threads, arguments.device),
        arguments.models.split(","),
        arguments.parts.split(","),
    )
    words = f" ({' '.join(arguments.overrides)})" if arguments.overrides else ""
    if "scan" in parts:
        title = f"Greedy decoding of SCAN {SUBSET} (cutoff 26){words}, no output ends: worst case"
        show("decode_scan", title, evaluation(models, arguments), environment)
    if "position" in parts:
        title = f"One decoding step of {arguments.rows} sequences of PCFG SET{words}, by position"
        show("decode_step", title, by_position(models, arguments), environment)


if __name__ == "__main__":
    main()
