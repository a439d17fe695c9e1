"""Greedy decoding on SCAN at the paper's sizes, and the cost of a decoding step by position.

1. Evaluation of all 2,624 OOD sequences of cutoff 26 by `attnlab.learn.evaluate`, as after a training. The weights are
   untrained and the end token's bias is so low that it is never chosen: every output runs to the limit (49 tokens),
   which is the worst case. The models take turns, batch by batch.
2. Milliseconds a decoding step at given positions: all models read one token after another in turns; a figure is the
   median over the ten steps from that position on.

    python -m benchmarks.decode --models linear,vanilla --positions 10,100
"""

import time
from collections.abc import Sequence

import torch

from attnlab.learn.evaluate import evaluate, evaluating
from benchmarks.lab import Lab, make_lab
from benchmarks.tables import show
from benchmarks.timing import Timings, begin, parser, progress

SUBSET, WINDOW = "test/ood", 10


def make_endless(model: str) -> Lab:
    """A SCAN lab whose network never writes the end token."""
    lab = make_lab("scan", model)
    with torch.no_grad():
        lab.network.output.linear.bias[lab.prepared.spec.end_id] = -1e9
    return lab


def evaluation(labs: dict[str, Lab]) -> Timings:
    """Seconds of each batch of the subset, in the order of lengths that `evaluate` visits them in."""
    found: dict[str, list[float]] = {name: [] for name in labs}
    first = next(iter(labs.values()))
    examples, size = first.prepared.subsets[SUBSET], first.config.train.eval_batch_size
    order = examples.lengths.argsort(kind="stable")
    for start in range(0, len(order), size):
        for name, lab in labs.items():
            begun = time.perf_counter()
            evaluate(
                lab.network,
                lab.prepared.spec,
                examples,
                batch_size=size,
                precision=lab.config.train.precision,
                decode_limit=lab.prepared.decode_limits[SUBSET],
                numbers=order[start : start + size],
            )
            found[name].append(time.perf_counter() - begun)
            progress(f"decoding, {name}: {min(start + size, len(order))} of {len(order)}")
    progress(None)
    return Timings(found)


def steps(labs: dict[str, Lab], positions: Sequence[int], rows: int) -> dict[int, Timings]:
    """Seconds a decoding step from each position on."""
    first = next(iter(labs.values()))
    batch = first.prepared.subsets[SUBSET].batch(torch.arange(rows).numpy())
    read = torch.full((rows,), first.prepared.spec.end_id)
    wanted = {place for position in positions for place in range(position, position + WINDOW)}
    found = {position: {name: [] for name in labs} for position in positions}
    states = {}
    for name, lab in labs.items():
        with evaluating(lab.network):
            states[name] = lab.network.start(batch.inputs, batch.input_mask)
    for place in range(max(wanted) + 1):
        for name, lab in labs.items():
            with evaluating(lab.network):
                begun = time.perf_counter()
                _, states[name] = lab.network.step(read, states[name])
                taken = time.perf_counter() - begun
            if place in wanted:
                found[max(p for p in positions if p <= place)][name].append(taken)
        progress(f"decoding step {place} of {max(wanted)}")
    progress(None)
    return {position: Timings(times) for position, times in found.items()}


def main() -> None:
    options = parser(__doc__, seconds=0)
    options.add_argument("--models", default="linear,vanilla", help="the first is the baseline (default: %(default)s)")
    options.add_argument("--positions", default="10,100,500", help="at least 10 apart (default: %(default)s)")
    options.add_argument("--rows", type=int, default=128, help="sequences of part 2 (default: %(default)s)")
    given = options.parse_args()
    place = begin(given.threads)
    labs = {model: make_endless(model) for model in given.models.split(",")}
    baseline, lab = next(iter(labs.items()))
    times = evaluation(labs)
    size, limit = len(lab.prepared.subsets[SUBSET]), lab.prepared.decode_limits[SUBSET]
    rows = [
        {
            "model": name,
            "sequences": size,
            "tokens each": limit,
            "seconds": sum(times.seconds[name]),
            "sequences/s": size / sum(times.seconds[name]),
            f"time / {baseline}": times.ratio(name, baseline),
        }
        for name in labs
    ]
    show("decode_scan", f"Greedy decoding of SCAN {SUBSET} (cutoff 26), no output ends: worst case", rows, place)
    by_position = steps(labs, [int(p) for p in given.positions.split(",")], given.rows)
    rows = [{"model": name} | {f"ms at {p}": 1000 * t.median(name) for p, t in by_position.items()} for name in labs]
    show("decode_step", f"One decoding step of {given.rows} sequences, by position", rows, place)


if __name__ == "__main__":
    main()
