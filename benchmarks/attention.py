"""Attention by length: time and peak memory of every shipped mechanism beside fused softmax and other baselines.

Every mechanism of `conf/model/*.yaml` is measured once, under the name of its first model. `attend` is timed: from
projected queries, keys and values to the outputs of the heads, with feature map and normalisation.
Forward is without gradients; forward + backward with the gradients of queries, keys and values. No padding, no
dropout, float32, models as initialised; tensors are laid out in memory as the network's projections make them.

On a GPU the kernels of flash-linear-attention take part if they are installed (`pip install 'attnlab[fast]'`); they
multiply in TensorFloat-32, the others do not.

For mechanisms that decode, the causal mode also compares a whole layer on the longest length with as many steps: times
as fast in one pass (without gradients), and the time of the last steps against that of the first ones.

A form is left out (-) from the length on at which it would take longer than --limit seconds or more memory than
--memory GB, estimated from the length before.

    python -m benchmarks.attention --lengths 1024,4096 --models linear,vanilla,transnormer_t2
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from attnlab.attention.base import Attention
from attnlab.config.conf_files import group_choices
from benchmarks.harness.attention_baselines import BASELINE, FLA, PUBLISHED
from benchmarks.harness.attention_contestants import Contestant, Shape, contestants, mechanisms
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.peak_memory import peak_of
from benchmarks.harness.tables import cell, show
from benchmarks.harness.timing import Timings, interleaved

MODES = {False: "bidirectional", True: "causal"}
PARTS = ("forward", "forward + backward")
FOREIGN = ("chunks", "performer-pytorch")
"""endings of the names of baselines of other packages"""
# Pairs to compare: our form, then its baseline.
PAIRS = (
    ("attnlab linear", BASELINE),
    ("attnlab linear", "linear, performer-pytorch"),
    ("attnlab linear", "performer, performer-pytorch"),
    ("attnlab linear", "linear, cumulative sum"),
    ("attnlab linear", "linear, fla, chunks"),
    ("attnlab linear", "linear, fla, fused chunks"),
    ("attnlab performer", "performer, performer-pytorch"),
    ("attnlab transnormer_t2, group 1", BASELINE),
    ("attnlab transnormer_t2, group 1", "softmax, fused, blocks by an N x N mask"),
    ("attnlab transnormer_t2, group 2", BASELINE),
    *(
        pair
        for name in (
            "retention",
            "scalar_gated_linear",
            "gated_linear",
            "delta_rule",
            "gated_delta_rule",
            "channel_gated_delta_rule",
        )
        for pair in ((f"attnlab {name}", "attnlab linear"), (f"attnlab {name}, fast", f"attnlab {name}"))
    ),
    ("attnlab based", "attnlab linear"),
)
STEPS = 128
"""first and last steps whose times are compared"""


@dataclass
class Findings:
    """Measurements of one mode: times by part and length, and peak bytes."""

    times: dict[str, dict[int, Timings]] = field(default_factory=lambda: {part: {} for part in PARTS})
    bytes: dict[str, dict[str, dict[int, float]]] = field(default_factory=lambda: {part: {} for part in PARTS})

    def ms(self, part: str, name: str, length: int) -> float:
        timings = self.times[part].get(length)
        return 1000 * timings.median(name) if timings and name in timings.seconds else math.nan

    def least_seconds(self, name: str, length: int) -> float:
        """Of forward + backward: the least disturbed turn."""
        timings = self.times[PARTS[1]].get(length)
        return min(timings.seconds[name]) if timings and name in timings.seconds else math.nan

    def mb(self, part: str, name: str, length: int) -> float:
        return self.bytes[part].get(name, {}).get(length, math.nan) / 1e6


def measure(chosen: Sequence[Contestant], lengths: Sequence[int], mode: str, limits: Mapping[str, Any]) -> Findings:
    """Measures all contestants at all lengths in turns, as far as time and memory allow.

    Args:
        limits: device, seconds of a comparison, turns at least, and what one call may take: limit, memory.
    """
    result, running = Findings(), list(chosen)
    for length, before in zip(lengths, [None, *lengths[:-1]], strict=True):
        running = [item for item in running if before is None or _affordable(result, item.name, before, length, limits)]
        for part in PARTS:
            tensors = {item.name: item.inputs(length) for item in running}
            runs = {
                item.name: (item.forward if part == "forward" else item.forward_backward)(tensors[item.name])
                for item in running
            }
            for name, run in runs.items():
                result.bytes[part].setdefault(name, {})[length] = peak_of(run, limits["device"])
            case = f"{mode}, {part}, N = {length}"
            result.times[part][length] = interleaved(runs, limits["seconds"], case, least=limits["turns"])
            for name in runs:
                ms, mb = result.ms(part, name, length), result.mb(part, name, length)
                print(f"{case}: {name}: {cell(ms)} ms, {cell(mb)} MB", flush=True)
    return result


def _affordable(result: Findings, name: str, before: int, length: int, limits: Mapping[str, Any]) -> bool:
    """Returns the expected factor of time if every form were quadratic."""
    growth = (length / before) ** 2
    seconds = growth * result.ms(PARTS[1], name, before) / 1000
    gigabytes = growth * result.mb(PARTS[1], name, before) / 1000
    return seconds <= limits["limit"] and not gigabytes > limits["memory"]


def length_table(
    names: Sequence[str], lengths: Sequence[int], value: Callable[[str, int], float]
) -> list[dict[str, object]]:
    """Returns a row per contestant with a column per length; "-" where it was left out."""
    rows = []
    for name in names:
        values = {f"N={n}": value(name, n) for n in lengths}
        rows.append({"form": name} | {key: "-" if math.isnan(x) else x for key, x in values.items()})
    return rows


def growth_table(result: Findings, names: Sequence[str], lengths: Sequence[int]) -> list[dict[str, object]]:
    """Returns the largest factor from a length to its double, forward + backward; 2 is linear, 4 quadratic.

    Times are those of the least disturbed turns.
    """
    rows = []
    for name in names:
        row: dict[str, object] = {"form": name}
        for column, value in (("time", result.least_seconds), ("memory", partial(result.mb, PARTS[1]))):
            pairs = [(value(name, 2 * n), value(name, n)) for n in lengths if 2 * n in lengths]
            factors = [later / earlier for later, earlier in pairs if earlier > 0 and not math.isnan(later)]
            row[f"{column}, largest 2N / N"] = max(factors) if factors else "-"
        row["longest N"] = max((n for n in lengths if not math.isnan(result.least_seconds(name, n))), default="-")
        rows.append(row)
    return rows


def pair_table(result: Findings, lengths: Sequence[int]) -> list[dict[str, object]]:
    """Returns how many times as fast as its baseline each of our forms is, turn by turn."""
    rows = []
    for ours, baseline in PAIRS:
        for part in PARTS:
            row: dict[str, object] = {"ours": ours, "yardstick": baseline, "part": part}
            for n in lengths:
                timings = result.times[part][n]
                is_measured = ours in timings.seconds and baseline in timings.seconds
                row[f"N={n}"] = timings.ratio(baseline, ours) if is_measured else "-"
            if any(row[f"N={n}"] != "-" for n in lengths):
                rows.append(row)
    return rows


def step_table(models: Sequence[str], shape: Shape, length: int) -> list[dict[str, object]]:
    """Returns a row per mechanism that decodes: a layer in one pass against steps, late steps against early ones."""
    rows = []
    for name, mechanism in mechanisms(models, True, shape, longest=length).items():
        # the kernels compute whole sequences, so that the fast form has the same steps
        if name.endswith(", fast") or not (mechanism.supports_causal and mechanism.supports_step):
            continue
        x = torch.randn(shape.batch, length, mechanism.d_model, device=shape.device)
        with torch.no_grad():
            whole = interleaved({name: partial(mechanism, x, causal=True)}, 1.0, f"{name}, one pass", least=3)
            times = step_times(mechanism, x)
        first, last = (statistics.median(part) for part in (times[:STEPS], times[-STEPS:]))
        rows.append(
            {
                "form": f"attnlab {name}",
                "one pass, ms": 1000 * whole.median(name),
                "steps, ms": 1000 * sum(times),
                "times as fast": sum(times) / whole.median(name),
                "last / first step": last / first,
            }
        )
        print({key: value if isinstance(value, str) else round(float(value), 3) for key, value in rows[-1].items()})
    return rows


def step_times(mechanism: Attention, x: torch.Tensor) -> list[float]:
    """Seconds of each step of a sequence, after some that are not counted."""
    times: list[float] = []
    for length in (min(STEPS, x.shape[1]), x.shape[1]):
        state, times = mechanism.init_state(len(x)), []
        for position in range(length):
            begun = time.perf_counter()
            _, state = mechanism.step(x[:, position : position + 1], state)
            if x.is_cuda:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - begun)
    return times


def main() -> None:
    shipped = group_choices()["model"]
    options = parser(__doc__, seconds=20, devices=True)
    options.add_argument("--lengths", default="256,512,1024,2048,4096,8192,16384", help="default: %(default)s")
    options.add_argument("--models", default=",".join(shipped), help="default: every model of conf/model")
    options.add_argument("--modes", default=",".join(MODES.values()), help="default: %(default)s")
    options.add_argument("--batch", type=int, default=2, help="samples (default: %(default)s)")
    options.add_argument("--heads", type=int, default=8, help="heads (default: %(default)s)")
    options.add_argument("--width", type=int, default=32, help="head width (default: %(default)s)")
    options.add_argument("--limit", type=float, default=10, help="seconds a call may take (default: %(default)s)")
    options.add_argument("--turns", type=int, default=3, help="turns at least (default: %(default)s)")
    options.add_argument("--memory", type=float, default=8, help="GB a call may need (default: %(default)s)")
    arguments = options.parse_args()
    environment, lengths = (
        begin(arguments.threads, arguments.device),
        sorted(int(n) for n in arguments.lengths.split(",")),
    )
    shape = Shape(arguments.batch, arguments.heads, arguments.width, arguments.device)
    torch.manual_seed(0)
    if not PUBLISHED:
        print("performer-pytorch is not installed and left out; pip install 'attnlab[bench]' brings it")
    if arguments.device.type == "cuda" and not FLA:
        print("flash-linear-attention is not installed and left out; pip install 'attnlab[fast]' brings it")
    for causal, mode in [item for item in MODES.items() if item[1] in arguments.modes.split(",")]:
        chosen = contestants(arguments.models.split(","), causal, shape, longest=max(lengths))
        chosen = that_work(chosen)
        check_equal(chosen)
        result, names = measure(chosen, lengths, mode, vars(arguments)), [single.name for single in chosen]
        title = f"Attention, {mode}, batch {shape.batch}, {shape.heads} heads of {shape.width}"
        for part, file in zip(PARTS, ("forward", "both"), strict=True):
            rows = length_table(names, lengths, partial(result.ms, part))
            show(f"attention_{mode}_{file}_ms", f"{title}, {part}: ms", rows, environment)
            rows = length_table(names, lengths, partial(result.mb, part))
            show(f"attention_{mode}_{file}_mb", f"{title}, {part}: peak memory, MB", rows, environment)
        if len(lengths) > 1:
            growth = growth_table(result, [name for name in names if name.startswith("attnlab")], lengths)
            show(f"attention_{mode}_growth", f"{title}: growth with length, forward + backward", growth, environment)
        if causal and (rows := step_table(arguments.models.split(","), shape, max(lengths))):
            show("attention_steps", f"A layer of {max(lengths)} positions: one pass and steps", rows, environment)
        if pairs := pair_table(result, lengths):
            show(f"attention_{mode}_pairs", f"{title}: how many times as fast as a yardstick", pairs, environment)


def that_work(chosen: Sequence[Contestant]) -> list[Contestant]:
    """Leaves out, with a message, baselines of other packages that fail on this machine."""
    working = []
    for item in chosen:
        try:
            item.forward_backward(item.inputs(64))()
            working.append(item)
        except Exception as error:
            if not item.name.endswith(FOREIGN):
                raise
            print(f"{item.name} is left out: {type(error).__name__}: {error}".splitlines()[0])
    return working


def check_equal(chosen: Sequence[Contestant]) -> None:
    """Checks that baselines give the results of our forms; otherwise a ratio would mean nothing."""
    forms = {form.name: form for form in chosen}
    for kind, model in (("softmax", "attnlab vanilla"), ("linear", "attnlab linear")):
        if model in forms:
            inputs = forms[BASELINE].inputs(64)
            expected = forms[model].form(inputs)
            for name, form in forms.items():
                if name.startswith(f"{kind},"):
                    # TensorFloat-32 keeps ten bits of the mantissa.
                    exact = {"rtol": 2e-2, "atol": 2e-2} if ", fla," in name else {"rtol": 1e-3, "atol": 1e-4}
                    torch.testing.assert_close(form.form(inputs), expected, **exact)


if __name__ == "__main__":
    main()
