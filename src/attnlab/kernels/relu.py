"""ReLU, in compiled steps on a CPU as an operator.

The gradient needs to know where the result is 0. With dropout behind, the compiler keeps this as a tensor of booleans,
and the loop that writes it takes 1.3 ms for 213,000 numbers, where ReLU alone takes 0.04 ms (one thread of an EPYC,
torch 2.13). The operator keeps the result instead.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def relu(x: Tensor) -> Tensor:
    """max(x, 0), with gradient 0 at 0."""
    return torch.ops.attnlab.relu(x) if torch.compiler.is_compiling() and x.device.type == "cpu" else F.relu(x)


torch.library.define("attnlab::relu", "(Tensor x) -> Tensor")
torch.library.define("attnlab::relu_gradient", "(Tensor grad, Tensor result) -> Tensor")


@torch.library.impl("attnlab::relu", "cpu")
def _(x: Tensor) -> Tensor:
    return F.relu(x.contiguous())


@torch.library.impl("attnlab::relu_gradient", "cpu")
def _(grad: Tensor, result: Tensor) -> Tensor:
    return torch.ops.aten.threshold_backward(grad.contiguous(), result, 0)


@torch.library.register_fake("attnlab::relu")
def _(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


@torch.library.register_fake("attnlab::relu_gradient")
def _(grad: Tensor, result: Tensor) -> Tensor:
    return grad.new_empty(grad.shape)


torch.library.register_autograd(
    "attnlab::relu",
    lambda ctx, grad: torch.ops.attnlab.relu_gradient(grad, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
)
