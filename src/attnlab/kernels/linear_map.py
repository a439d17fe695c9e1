"""Linear maps of sequences: as `torch.nn.Linear`, faster on some CPUs, and several maps of one input as one product.

On a CPU torch gives float32 products to MKL, which uses 256-bit instructions on processors of other makers than Intel
even where they have AVX-512. oneDNN, which torch contains too and uses for bfloat16, uses what is there. So on such
processors large products go to oneDNN: the same sums in another order.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from attnlab.kernels.direct_function import DirectFunction

FEWEST_PRODUCTS = 2**22
"""multiplications from which oneDNN pays; it needs some 20 microseconds before it begins"""

FEWEST_POSITIONS = 1024
"""positions from which joining maps pays: below, copying the weights into one matrix takes longer than it saves"""


class LinearMap(nn.Linear):
    """`torch.nn.Linear`, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """x W^T + b, over the last axis."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear`: x (..., K), weight (N, K), bias (N), result (..., N); equal up to rounding."""
    if not _pays(x, weight):
        return F.linear(x, weight, bias)
    if torch.compiler.is_compiling():
        return torch.ops.attnlab.linear(x, weight, bias)
    return _OneDnnLinear.apply(x, weight, bias)


def joined(x: Tensor, maps: Sequence[nn.Linear]) -> Tensor | None:
    """Results of linear maps of x (B, N, E) side by side, by one product: equal up to rounding.

    The maps stay modules of their own, with their names, starting values and gradients. None for few positions, for a
    map that is not plain (`_is_plain`), for maps of different widths, and where only some have a bias: they are to be
    called one by one.
    """
    biases = tuple(each.bias for each in maps if each.bias is not None)
    is_uniform = len(biases) in (0, len(maps)) and all(map(_is_plain, maps))
    is_uniform = is_uniform and len({len(each.weight) for each in maps}) == 1
    if x.shape[0] * x.shape[1] < FEWEST_POSITIONS or not is_uniform:
        return None
    weight = torch.cat(tuple(each.weight for each in maps))
    return linear(x, weight, torch.cat(biases) if biases else None)


def _is_plain(module: nn.Module) -> bool:
    """Whether a call of the module is the product alone: no other class, no `forward` of the instance, no hooks."""
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    watched = any(hooks) or nn.modules.module._has_any_global_hook()
    return type(module) in (LinearMap, nn.Linear) and "forward" not in vars(module) and not watched


def _pays(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN computes the product: in float32 on a CPU where it is faster, if the product is large."""
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and x.numel() * len(weight) >= FEWEST_PRODUCTS
        and not torch.is_autocast_enabled("cpu")
        and FASTER_HERE
    )


def _faster_here() -> bool:
    """Whether MKL uses less of this processor than oneDNN: one with AVX-512 that is not Intel's."""
    wide = torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    return wide and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise") and _amd()


def _amd() -> bool:
    """Whether the processor is AMD's; False where the system does not say."""
    processors = Path("/proc/cpuinfo")
    return processors.is_file() and "AuthenticAMD" in processors.read_text()


FASTER_HERE = _faster_here()
"""a constant, which a step can be compiled with"""


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _OneDnnLinear(DirectFunction):
    """A linear map by oneDNN, whose operator in torch has no gradient of its own."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return _product(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _gradients(ctx, grad, _product)


def _gradients(ctx: Any, grad: Tensor, product: Callable[..., Tensor]) -> tuple[Tensor | None, ...]:
    """Gradients of x, weight and bias, as far as they are needed."""
    x, weight = ctx.saved_tensors
    of_x, of_weight, of_bias = ctx.needs_input_grad
    grad = grad.contiguous()
    rows, inputs = grad.flatten(0, -2).t(), x.flatten(0, -2).t()
    # The operator copies its first argument, here the smaller one.
    small = len(rows) <= len(inputs)
    return (
        product(grad, weight.t(), None) if of_x else None,
        (product(rows, inputs, None) if small else product(inputs, rows, None).t().contiguous()) if of_weight else None,
        rows.sum(1) if of_bias else None,
    )


torch.library.define("attnlab::linear", "(Tensor x, Tensor weight, Tensor? bias) -> Tensor")
"""`_product` in compiled steps: inductor does not accept oneDNN's operator with weights that are trained"""


@torch.library.impl("attnlab::linear", "cpu")
def _(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return _product(x, weight, bias)


@torch.library.register_fake("attnlab::linear")
def _(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(*x.shape[:-1], len(weight))


torch.library.register_autograd(
    "attnlab::linear",
    lambda ctx, grad: _gradients(ctx, grad, torch.ops.attnlab.linear),
    setup_context=_OneDnnLinear.setup_context,
)
