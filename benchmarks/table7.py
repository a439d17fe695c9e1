"""Speed and memory by length of the models of Qin et al. 2022, table 7: steps a second and peak memory of inference and
of training, relative to vanilla in the same run, beside the published ratios.

Settings of the paper (section 5.3: "the same configurations of the Skyformer"): LRA's byte-level text, 2 layers of
width 64, 2 heads, GLU parts 85 wide, the models of `experiment=qin2022/table6_lra`. Random bytes of one length without
padding stand for the reviews, since speed depends on sizes only. Not said in the paper, so guesses: the batch (that
preset's; on a CPU 1 is the default) and K = 1,024. Published: one A6000 of 48 GB, number format not said; here float32,
or `train.precision=bf16-mixed` behind the options.

inference  logits and loss of one batch, no gradients, no dropout
training   one step as in `benchmarks.orthogonality_loss`: forward, backward, clipping, AdamW; no Lightning, no loading
vanilla    softmax with the N x N matrix written out (torch's math kernel), as the published one, which runs out of
           memory from 3K on. `vanilla_fused` is our `vanilla`: fused kernels, where torch has one (on a CPU not with
           dropout, so not in training).

All models and lengths of a mode take turns; a ratio is the median over the turns. Memory is the peak of a call less
what was in use before it (weights, optimiser). A model that runs out of memory is named so at this length and at longer
ones, which are not tried. On a CPU, where the system would stop the process, a model is left out if it may need more
than the free memory, estimated as quadratic growth from the length before. Where vanilla has no number there is no
ratio, only steps a second.

Writes csv files, `table7.md` and `table7.png` into --out.

    python -m benchmarks.table7 --device cuda --out OUT
    python -m benchmarks.table7 --device cpu --lengths 512,1024 --models vanilla,linformer,transnormer_t2
    python -m benchmarks.table7 --draw experiments/measured/table7_cpu/README.md --out OUT
"""

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
import yaml
from torch.nn.attention import SDPBackend, sdpa_kernel

from attnlab.config.nearest_word import choice
from attnlab.config.shipped_files import CONF
from attnlab.launch.device_errors import lacks_memory
from attnlab.learn.devices import memory_use
from attnlab.learn.evaluator import precision_context
from attnlab.tasks.base import Prepared
from attnlab.tasks.kinds.base import kind_of
from benchmarks.harness import synthetic_data
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.peak_memory import peak_of
from benchmarks.harness.speed_by_length_figure import speed_by_length
from benchmarks.harness.table7_findings import (
    BASELINE,
    FUSED,
    PUBLISHED,
    Findings,
    published_rows,
    tables_of,
    turn_name,
)
from benchmarks.harness.tables import RESULTS, markdown, show
from benchmarks.harness.timing import interleaved, progress
from benchmarks.harness.workload import Workload, make_config, make_workload, stepper

PRESET = "qin2022/table6_lra"
MODES = ("inference", "training")
OUT_OF_MEMORY = "out of memory"
LENGTHS = "1024,2048,3072,4096,5120"


def model_choice(name: str) -> str:
    """The choice of `model=` for a row: the one with this name in the preset of table 6, or a variant of it."""
    swept = yaml.safe_load((CONF / "experiment" / f"{PRESET}.yaml").read_text())["hydra"]["sweeper"]["params"]["model"]
    choices = {word.strip().rpartition("/")[2]: word.strip() for word in swept.split(",")}
    row, others = BASELINE if name == FUSED else name, set(published_rows())
    near = (label for label in choices if label.startswith(f"{row}_") and label not in others)
    label = row if row in choices else next(near, None)
    if label is None:
        raise SystemExit(f"{PRESET} has no model for the row {row} of {PUBLISHED}")
    return choices[label]


def workload_of(name: str, prepared: Prepared, inputs: argparse.Namespace) -> Workload:
    """The network and the settings of a row at one length."""
    settings = [f"experiment={PRESET}", f"train.batch_size={inputs.batch}", *inputs.overrides]
    return make_workload("lra_text", model_choice(name), settings, inputs.device, prepared)


def inference(workload: Workload) -> Callable[[], object]:
    """Logits and loss of the first batch, without gradients."""
    network, batch = workload.network.eval(), next(workload.batches(workload.order))
    objective, precision = kind_of(workload.prepared.spec).loss, workload.config.train.precision

    def run() -> object:
        with torch.no_grad(), precision_context(precision, workload.device):
            return objective(network, batch)

    return run


def written_out(run: Callable[[], object]) -> Callable[[], object]:
    """A call whose softmax attentions write out the N x N matrix."""

    def inner() -> object:
        with sdpa_kernel(SDPBackend.MATH):
            return run()

    return inner


def peak_or_reason(run: Callable[[], object], before: float | None, growth: float, device: torch.device) -> float | str:
    """Peak memory of a call in bytes, or why it has none.

    Args:
        before: peak at the length before, which grows by `growth` at most; None at the first length.
    """
    # Read before each call: the system stops a process on a CPU, where a GPU's allocator raises an error.
    if device.type == "cpu" and before is not None and growth * before > memory_use.free_memory_bytes(device):
        return f"{OUT_OF_MEMORY} (estimated)"
    try:
        # The first call allocates what stays: workspaces, the optimiser's state.
        run()
        return peak_of(run, device)
    except (RuntimeError, MemoryError) as error:
        if not lacks_memory(error):
            raise
    torch.cuda.empty_cache()
    return OUT_OF_MEMORY


def measure(names: Sequence[str], lengths: Sequence[int], inputs: argparse.Namespace) -> Iterator[tuple[str, Findings]]:
    """Measures the models at all lengths, one mode after the other: memory one after another, then times in turns."""
    data = {length: synthetic_data.classes_of(length, 2 * inputs.batch) for length in lengths}
    workloads = {(name, length): workload_of(name, data[length], inputs) for length in lengths for name in names}
    for mode in MODES:
        findings = Findings()
        runs: dict[str, Callable[[], object]] = {}
        for (name, length), workload in workloads.items():
            shorter = max((n for n in lengths if n < length), default=length)
            if reason := findings.failed.get((name, shorter)):
                findings.failed[name, length] = reason
                continue
            progress(f"{mode}: memory of {name}, N = {length}")
            run = inference(workload) if mode == "inference" else stepper(workload, waits=False)
            run = written_out(run) if name == BASELINE else run
            before = findings.bytes.get((name, shorter))
            peak = peak_or_reason(run, before, (length / shorter) ** 2, inputs.device)
            print(
                f"{mode}, {name}, N = {length}: {peak if isinstance(peak, str) else f'{peak / 1e6:.1f} MB'}", flush=True
            )
            if isinstance(peak, str):
                findings.failed[name, length] = peak
            else:
                runs[turn_name(name, length)], findings.bytes[name, length] = run, peak
        findings.times = interleaved(runs, inputs.seconds, mode, inputs.turns)
        yield mode, findings


def options_given(rows: Sequence[str]) -> argparse.Namespace:
    """The command line, checked."""
    options = parser(__doc__, seconds=120, devices=True)
    options.add_argument("--lengths", default=LENGTHS, help="default: %(default)s")
    options.add_argument("--models", default=",".join([BASELINE, FUSED, *rows[1:]]), help="default: all of the table")
    options.add_argument("--batch", type=int, help="samples (default: the preset's on a GPU, 1 on a CPU)")
    options.add_argument("--turns", type=int, default=5, help="turns at least (default: %(default)s)")
    options.add_argument("--out", type=Path, default=RESULTS, help="folder (default: benchmarks/results)")
    options.add_argument("--draw", type=Path, metavar="FILE", help="only draw the tables of a markdown file")
    options.add_argument("overrides", nargs="*", metavar="key=value", help="settings, as for train.py")
    arguments = options.parse_args()
    known = {FUSED, *rows}
    for name in arguments.models.split(","):
        if name not in known:
            options.error(f"--models: {name} is no row of table 7{choice(name, sorted(known), 'there')}")
    if BASELINE not in arguments.models.split(","):
        options.error(f"--models: {BASELINE} is missing, and every ratio is relative to it")
    if not all(word.isdigit() and int(word) > 0 for word in arguments.lengths.split(",")):
        options.error(f"--lengths={arguments.lengths}: expected numbers of tokens, such as {LENGTHS}")
    return arguments


def main() -> None:
    inputs = options_given(published_rows())
    if inputs.draw is not None:
        draw(inputs.draw, inputs.out / "table7.png")
        return
    names, lengths = inputs.models.split(","), sorted({int(n) for n in inputs.lengths.split(",")})
    environment = begin(inputs.threads, inputs.device)
    if inputs.batch is None:
        preset = make_config("lra_text", BASELINE, [f"experiment={PRESET}"])
        inputs.batch = preset.train.batch_size if inputs.device.type == "cuda" else 1
    torch.manual_seed(0)
    files, choices = [], {name: model_choice(name) for name in names}
    for mode, findings in measure(names, lengths, inputs):
        for number, (subject, rows) in enumerate(tables_of(findings, mode, choices, lengths), start=1):
            title = f"Table 7, {mode}, batch {inputs.batch}: {subject}"
            files.append(show(f"table7_{mode}_{number}", title, rows, environment, inputs.out))
    (inputs.out / "table7.md").write_text("\n\n".join(markdown(file) for file in files if file) + "\n")
    draw(inputs.out / "table7.md", inputs.out / "table7.png")


def draw(tables: Path, path: Path) -> None:
    """Draws the figure of measured tables."""
    try:
        print(f"written to {os.path.relpath(speed_by_length(tables.read_text(), path))}")
    except ValueError as error:
        print(f"no figure: {error}")


if __name__ == "__main__":
    main()
