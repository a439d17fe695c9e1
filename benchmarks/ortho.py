"""The orthogonality loss: O(N D min(N, D)) against the N x N Gram matrix, and its share of a training step.

1. Forward and backward of `attnlab.attention.orthogonality` and of the plain Gram form, in turns, on random values of
   head width 32, 4 heads, about 4,096 positions altogether (157 sequences of 26, one of 4,096). Both must agree.
2. The losses of one real training step of `linear_l2_ortho` (all covered layers, the step's own values and mask,
   forward and backward) against that whole step, in turns. The step is the manual one of `benchmarks.lab`, without
   Lightning. What a user pays is in `benchmarks.train_step`: linear_l2_ortho / linear_l2.

    python -m benchmarks.ortho --lengths 26,256
"""

from collections.abc import Callable
from unittest import mock

import torch
from torch import Tensor

from attnlab.attention.orthogonality import EPS, orthogonality_loss
from benchmarks.lab import make_lab, stepper
from benchmarks.tables import show
from benchmarks.timing import begin, interleaved, parser

HEADS, WIDTH, POSITIONS = 4, 32, 4096


def gram_form(v: Tensor) -> Tensor:
    """The definition: cosines of all pairs as an N x N matrix."""
    unit = v * (v.square().sum(-1, keepdim=True) + EPS).rsqrt()
    cosines = unit @ unit.transpose(-1, -2)
    n = v.shape[2]
    same = torch.eye(n, dtype=torch.bool)
    return (cosines.square().masked_fill(same, 0.0).sum((-1, -2)) / (n * (n - 1))).mean()


def differentiated(loss: Callable[..., Tensor], v: Tensor, *rest: object) -> Callable[[], None]:
    """Forward and backward of a loss of v."""
    v = v.detach().requires_grad_()

    def run() -> None:
        v.grad = None
        loss(v, *rest).backward()

    return run


def against_gram(lengths: list[int], seconds: float) -> list[dict[str, object]]:
    """A row for every length."""
    rows = []
    for length in lengths:
        v = torch.randn(max(1, POSITIONS // length), HEADS, length, WIDTH)
        torch.testing.assert_close(orthogonality_loss(v), gram_form(v), rtol=1e-3, atol=1e-6)
        runs = {"ours": differentiated(orthogonality_loss, v), "gram": differentiated(gram_form, v)}
        times = interleaved(runs, seconds, f"loss, N = {length}")
        rows.append(
            {
                "N": length,
                "sequences": len(v),
                "ours ms": 1000 * times.median("ours"),
                "Gram form ms": 1000 * times.median("gram"),
                "Gram form / ours": times.ratio("gram", "ours"),
                "middle half": times.quartiles("gram", "ours"),
            }
        )
    return rows


def share(task: str, seconds: float) -> dict[str, object]:
    """The losses of one training step as a part of it."""
    step = stepper(make_lab(task, "linear_l2_ortho"))
    with mock.patch("attnlab.attention.base.orthogonality_loss", wraps=orthogonality_loss) as spy:
        step()
    losses = [differentiated(orthogonality_loss, *call.args) for call in spy.call_args_list]
    runs = {"losses": lambda: [run() for run in losses], "step": step}
    times = interleaved(runs, seconds, f"share of a step, {task}")
    return {
        "task": task,
        "values [B, H, N, D]": str(list(spy.call_args_list[0].args[0].shape)),
        "losses in a step": len(losses),
        "all losses ms": 1000 * times.median("losses"),
        "step ms": 1000 * times.median("step"),
        "share %": 100 * times.ratio("losses", "step"),
    }


def main() -> None:
    options = parser(__doc__, seconds=10)
    options.add_argument("--lengths", default="26,256,1024,4096", help="default: %(default)s")
    options.add_argument("--tasks", default="scan,sort_of_clevr", help="default: %(default)s")
    given = options.parse_args()
    place = begin(given.threads)
    torch.manual_seed(0)
    rows = against_gram([int(n) for n in given.lengths.split(",")], given.seconds)
    show("ortho_gram", "Orthogonality loss, forward and backward, against the N x N Gram form", rows, place)
    rows = [share(task, given.seconds) for task in given.tasks.split(",")]
    show("ortho_share", "Orthogonality loss, share of a training step of linear_l2_ortho", rows, place)


if __name__ == "__main__":
    main()
