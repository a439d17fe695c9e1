"""Orthogonality loss: O(N D min(N, D)) against the N x N Gram matrix, and its share of a training step.

1. Forward and backward of `attnlab.attention.core.orthogonality_loss` and of the plain Gram form, in turns, on random
   values of head width 32, 4 heads, about 4,096 positions altogether (157 sequences of 26, one of 4,096). Both must
   agree.
2. A training step of `linear_l2_ortho` on every task whose data is there, and on random bytes of one length at the
   sizes of LRA's text task (two layers of width 64, 16,384 positions a batch). The step is the manual one of
   `benchmarks.harness.workload`, without Lightning; "values" shows batch and sizes of the first loss.

   adds %    the losses of one step alone (all covered layers, its own values and masks, forward and backward) against
             the rest of that step: precise. On a GPU short kernels alone take longer than among others: an upper bound.
   paired %  a whole step of linear_l2_ortho against one of linear_l2, less 100: what a user pays; noisier, so with the
             95 % interval of its median over the turns.

    python -m benchmarks.orthogonality_loss --tasks scan --lengths 64,1024
    python -m benchmarks.orthogonality_loss model.ortho.form=frobenius_unsquared model.ortho.values=full_width
"""

from collections.abc import Callable, Iterator, Sequence
from unittest import mock

import torch
from torch import Tensor

from attnlab.attention.core.orthogonality_loss import EPS, loss_of_finite_values, orthogonality_loss
from benchmarks.harness import synthetic_data
from benchmarks.harness.environment import begin, parser
from benchmarks.harness.tables import show
from benchmarks.harness.timing import interleaved
from benchmarks.harness.workload import Workload, make_workload, small_batch, stepper, tasks_of

HEADS, WIDTH, POSITIONS = 4, 32, 4096
PLAIN, ORTHO = "linear_l2", "linear_l2_ortho"
STEP_POSITIONS = 16_384


def gram_form(v: Tensor) -> Tensor:
    """Orthogonality loss by its definition: cosines of all pairs as an N x N matrix."""
    unit = v * (v.square().sum(-1, keepdim=True) + EPS).rsqrt()
    cosines = unit @ unit.transpose(-1, -2)
    n = v.shape[2]
    same = torch.eye(n, dtype=torch.bool, device=v.device)
    return (cosines.square().masked_fill(same, 0.0).sum((-1, -2)) / (n * (n - 1))).mean()


def differentiated(loss: Callable[..., Tensor], v: Tensor, *rest: object) -> Callable[[], None]:
    """Returns forward and backward of a loss of v as a call."""
    v = v.detach().requires_grad_()

    def run() -> None:
        v.grad = None
        loss(v, *rest).backward()

    return run


def against_gram(lengths: Sequence[int], seconds: float, device: torch.device) -> Iterator[dict[str, object]]:
    """Measures a row per length."""
    for length in lengths:
        v = torch.randn(max(1, POSITIONS // length), HEADS, length, WIDTH, device=device)
        torch.testing.assert_close(orthogonality_loss(v), gram_form(v), rtol=1e-3, atol=1e-6)
        runs = {"ours": differentiated(orthogonality_loss, v), "gram": differentiated(gram_form, v)}
        times = interleaved(runs, seconds, f"loss, N = {length}")
        yield {
            "N": length,
            "sequences": len(v),
            "ours ms": 1000 * times.median("ours"),
            "Gram form ms": 1000 * times.median("gram"),
            "Gram form / ours": times.ratio("gram", "ours"),
            "middle half": times.quartiles("gram", "ours"),
        }


def cost(plain: Workload, ortho: Workload, seconds: float, label: str) -> dict[str, object]:
    """Measures the cost of the loss in a training step in both ways."""
    step = stepper(ortho)
    with mock.patch("attnlab.attention.base.loss_of_finite_values", wraps=loss_of_finite_values) as spy:
        step()
    losses = [differentiated(loss_of_finite_values, *call.args) for call in spy.call_args_list]
    runs = {"losses": lambda: [run() for run in losses], "step": step, "plain": stepper(plain)}
    times = interleaved(runs, seconds, f"share of a step, {label}", least=6)
    share, paired = times.ratio("losses", "step"), times.ratio("step", "plain")
    return {
        "values [B, H, N, D]": str(list(spy.call_args_list[0].args[0].shape)),
        "losses in a step": len(losses),
        "all losses ms": 1000 * times.median("losses"),
        "step ms": 1000 * times.median("step"),
        "adds %": 100 * share / (1 - share),
        "paired %": 100 * (paired - 1),
        "paired, 95 %": times.interval("step", "plain").text(lambda ratio: f"{100 * (ratio - 1):+.1f}"),
    }


def of_task(task: str, overrides: Sequence[str], seconds: float, device: torch.device) -> dict[str, object]:
    """Returns the cost at the task's own sizes."""
    plain = make_workload(task, PLAIN, overrides, device)
    return {"task": task} | cost(plain, make_workload(task, ORTHO, overrides, device, plain.prepared), seconds, task)


def of_length(length: int, overrides: Sequence[str], seconds: float, device: torch.device) -> dict[str, object]:
    """Returns the cost at one length, with as many sequences as make `STEP_POSITIONS` positions."""
    batch = max(1, STEP_POSITIONS // length)
    prepared = synthetic_data.classes_of(length, 2 * batch)
    plain, ortho = (
        make_workload("lra_text", model, [f"train.batch_size={batch}", *overrides], device, prepared)
        for model in (PLAIN, ORTHO)
    )
    return {"N": length} | cost(plain, ortho, seconds, f"N = {length}")


def numbers(text: str) -> list[int]:
    return [int(n) for n in text.split(",") if n]


def main() -> None:
    options = parser(__doc__, seconds=10, devices=True)
    options.add_argument("--gram-lengths", default="26,256,1024,4096", help="of part 1 (default: %(default)s)")
    options.add_argument("--tasks", default="all", help="names, or all (default: %(default)s)")
    lengths = ",".join(str(64 * 2**power) for power in range(9))
    options.add_argument("--lengths", default=lengths, help="of steps (default: %(default)s)")
    options.add_argument("--published-batch", action="store_true", help="as large as in the tasks' files")
    options.add_argument("overrides", nargs="*", metavar="key=value", help="settings of steps, as for train.py")
    arguments = options.parse_args()
    environment = begin(arguments.threads, arguments.device)
    torch.manual_seed(0)
    if lengths := numbers(arguments.gram_lengths):
        rows = against_gram(lengths, arguments.seconds, arguments.device)
        show("ortho_gram", "Orthogonality loss, forward and backward, against the N x N Gram form", rows, environment)
    words = f" ({' '.join(arguments.overrides)})" if arguments.overrides else ""
    if lengths := numbers(arguments.lengths):
        rows = (of_length(n, arguments.overrides, arguments.seconds, arguments.device) for n in lengths)
        title = f"Orthogonality loss in a training step, {STEP_POSITIONS} positions, by length{words}"
        show("ortho_lengths", title, rows, environment)
    tasks = tasks_of(arguments.tasks) if arguments.tasks else []
    batches = {task: arguments.overrides + ([] if arguments.published_batch else small_batch(task)) for task in tasks}
    if tasks:
        rows = (of_task(task, batches[task], arguments.seconds, arguments.device) for task in tasks)
        show("ortho_tasks", f"Orthogonality loss in a training step, by task{words}", rows, environment)


if __name__ == "__main__":
    main()
