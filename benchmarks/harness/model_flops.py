"""Model FLOPs of a training step, and the FLOPs that the device could do in the same time.

Counted by torch.utils.flop_counter over one forward and backward pass: matrix products, convolutions and fused
attention (causal attention as if it were whole), two for each multiplication with addition, padding included. Not
counted: what is done number by number (activations, norms, softmax), sums and scans, gathering, the optimiser, passes
that are computed again to save memory, and operations that torch does not know (custom ones). So it is what the model
needs at least.
"""

from collections.abc import Callable, Mapping

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from attnlab.learn.evaluator import precision_context
from attnlab.tasks.kinds.base import kind_of
from benchmarks.harness.workload import Workload

# Dense matrix products, FLOP/s, from NVIDIA's data sheets of the SXM forms (their figures "with sparsity", halved).
PEAKS: Mapping[str, Mapping[str, float]] = {
    "H200": {"float32": 67e12, "tf32": 494.5e12, "bfloat16": 989e12, "float16": 989e12},
    "H100": {"float32": 67e12, "tf32": 494.5e12, "bfloat16": 989e12, "float16": 989e12},
    "A100": {"float32": 19.5e12, "tf32": 156e12, "bfloat16": 312e12, "float16": 312e12},
}
FORMATS = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16, "64-true": torch.float64}
SIDE = {"cpu": 2048, "cuda": 8192}
"""width of the large matrices"""


def _fused_on_cpu(q: list[int], k: list[int], v: list[int], *args: object, **kwargs: object) -> int:
    return sdpa_flop_count(q, k, v)


def _fused_on_cpu_backward(
    grad: list[int], q: list[int], k: list[int], v: list[int], *args: object, **kwargs: object
) -> int:
    return sdpa_backward_flop_count(grad, q, k, v)


# torch counts its fused attention on GPUs only.
CPU_ATTENTION = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _fused_on_cpu,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _fused_on_cpu_backward,
}


def counted(run: Callable[[], object]) -> int:
    """Returns the FLOPs of a call."""
    with FlopCounterMode(display=False, custom_mapping=CPU_ATTENTION) as counter:
        run()
    return counter.get_total_flops()


def flops_per_position(workload: Workload) -> float:
    """Returns FLOPs of forward and backward of one training batch per position (padding included).

    A batch that training computes in pieces is counted in pieces, each once. Nothing is compiled for it: a counter sees
    no operation of a compiled graph.
    """
    spec, train = workload.prepared.spec, workload.config.train
    objective, batch = kind_of(spec).loss, next(workload.batches(workload.order))
    workload.network.train()

    def passes() -> None:
        for piece in batch.pieces(train.max_tokens):
            given = kind_of(spec).training_batch(piece)
            with precision_context(train.precision, workload.device):
                loss, penalty = objective(workload.network, given)
            (loss + workload.config.model.ortho.weight * penalty).backward()

    flops = counted(passes)
    workload.network.zero_grad(set_to_none=True)
    return flops / workload.positions(batch)[1]


def large_product(precision: str, device: torch.device) -> tuple[Callable[[], object], float]:
    """Returns a large matrix product in the number format of `train.precision` as a call, and its FLOPs."""
    n = SIDE[device.type]
    a, b = torch.randn(2, n, n, device=device, dtype=FORMATS.get(precision, torch.float32))
    return lambda: a @ b, 2.0 * n**3


def data_sheet(gpu: str, precision: str, tf32: bool) -> float | None:
    """Returns the peak FLOP/s of a GPU by its name; None if the table does not have the GPU."""
    kind = str(FORMATS.get(precision, torch.float32)).removeprefix("torch.")
    peaks = next((peaks for name, peaks in PEAKS.items() if name in gpu), {})
    return peaks.get("tf32" if kind == "float32" and tf32 else kind)
