"""A stand-in on the CPU for torch's strict deterministic mode on a GPU (`torch.use_deterministic_algorithms`).

The list is of the operations that torch's documentation of that function names as errors, in 2.6 or later.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

REFUSED = {
    *("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward", "adaptive_max_pool2d_backward"),
    *("avg_pool3d_backward", "max_pool3d_with_indices_backward", "max_unpool2d", "max_unpool3d"),
    *("fractional_max_pool2d_backward", "fractional_max_pool3d_backward"),
    *(f"upsample_{kind}_backward" for kind in ("linear1d", "bilinear2d", "bicubic2d", "trilinear3d")),
    *(f"_upsample_{kind}2d_aa_backward" for kind in ("bilinear", "bicubic")),
    *(f"{kind}_pad{n}d_backward" for kind in ("reflection", "replication") for n in (1, 2, 3)),
    *("nll_loss2d_forward", "nll_loss2d_backward", "_ctc_loss_backward", "_embedding_bag_dense_backward"),
    *("put", "put_", "histc", "_histc", "kthvalue", "index_reduce", "index_reduce_"),
    *("grid_sampler_2d_backward", "grid_sampler_3d_backward"),
}


class StrictMode(TorchDispatchMode):
    """Raises for operations that a GPU refuses in strict mode, in forward and backward passes.

    Also for gradients of `gather` that would sort a key for every number of a row there, instead of one for the row.
    """

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if name in REFUSED or (name in SOMETIMES and SOMETIMES[name](*args, **(kwargs or {}))):
            raise RuntimeError(f"{name}_cuda does not have a deterministic implementation (stand-in on the CPU)")
        return func(*args, **(kwargs or {}))


def _float_sum(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> bool:
    return (dtype or x.dtype).is_floating_point


def _key_for_every_number(x: Tensor, dim: int, index: Tensor, source: Tensor) -> bool:
    return index.shape[dim] > 1 and index.shape[-1] > 1


SOMETIMES: dict[str, Callable[..., bool]] = {
    "cumsum": _float_sum,
    "cumsum_": _float_sum,
    "bincount": lambda x, weights=None, minlength=0: weights is not None,
    # without indices both are deterministic
    "median": lambda x, *dim: bool(dim),
    "nanmedian": lambda x, *dim: bool(dim),
    "scatter_reduce": lambda x, dim, index, source, reduce, **_: reduce == "prod",
    "scatter_add": _key_for_every_number,
    "scatter_add_": _key_for_every_number,
}
"""operations that are refused with some arguments only"""
