"""Cross-entropy over large vocabularies, a chunk of positions at a time: the logits of a batch are never all there.

At WikiText-103's published settings (65,536 tokens a batch, 267,735 words) they would take 70 GB in float32. The sum of
the losses needs of each chunk only its own gradients, which are formed with it and added up, so that there is no second
pass over the vocabulary and at most `CHUNK` logits exist at once.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

CHUNK = 2**26
"""logits formed at once, 256 MiB in float32; smaller chunks spend their time on adding up gradients of the weights"""


class _ChunkedLoss(torch.autograd.Function):
    """Sum of the losses; gradients by hidden states, weights and biases are computed on the way."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        wanted = ctx.needs_input_grad[:3]
        # sums over many chunks are kept in the precision of the parameters
        grad_hidden = torch.empty_like(hidden) if wanted[0] else None
        grad_weight = torch.zeros_like(weight) if wanted[1] else None
        grad_bias = torch.zeros_like(bias) if wanted[2] else None
        total = hidden.new_zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32))
        for part in _parts(len(hidden), len(weight)):
            x, y = hidden[part], targets[part]
            logits = F.linear(x, weight, bias)
            probabilities = logits.to(total.dtype)
            spread = probabilities.logsumexp(-1, keepdim=True)
            total += (spread - probabilities.gather(-1, y[:, None])).sum()
            if not any(wanted):
                continue
            slope = probabilities.sub_(spread).exp_().scatter_add_(-1, y[:, None], -torch.ones_like(spread))
            # float16 would lose the probabilities of a large vocabulary: most are below its least number
            slope = slope.to(slope.dtype if logits.dtype == torch.float16 else logits.dtype)
            with torch.autocast(device_type=hidden.device.type, enabled=False):
                if grad_hidden is not None:
                    grad_hidden[part] = slope @ weight.to(slope.dtype)
                if grad_weight is not None and grad_weight.dtype == slope.dtype:
                    # in place: a second matrix of that size, and a pass over it, would cost more than the product
                    grad_weight.addmm_(slope.T, x.to(slope.dtype))
                elif grad_weight is not None:
                    grad_weight += slope.T @ x.to(slope.dtype)
            if grad_bias is not None:
                grad_bias += slope.sum(0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if g is None else g * upstream.to(g.dtype) for g in ctx.saved_tensors), None


def chunked_cross_entropy(
    hidden: Float[Tensor, "T E"], weight: Float[Tensor, "V E"], bias: Float[Tensor, " V"], targets: Int[Tensor, " T"]
) -> Float[Tensor, ""]:
    """Mean of -log softmax(hidden weight^T + bias)[target] over T positions, equal to torch's up to rounding.

    First derivatives only.
    """
    return _ChunkedLoss.apply(hidden, weight, bias, targets) / max(len(targets), 1)


@torch.no_grad()
def token_losses(
    hidden: Float[Tensor, "T E"], weight: Float[Tensor, "V E"], bias: Float[Tensor, " V"], targets: Int[Tensor, " T"]
) -> tuple[Float[Tensor, " T"], Bool[Tensor, " T"]]:
    """The loss at every position, and whether the likeliest token is the target."""
    losses, right = [hidden.new_zeros(0, dtype=torch.float32)], [targets.new_zeros(0, dtype=torch.bool)]
    for part in _parts(len(hidden), len(weight)):
        logits = F.linear(hidden[part], weight, bias)
        losses.append(F.cross_entropy(logits.float(), targets[part], reduction="none"))
        right.append(logits.argmax(-1) == targets[part])
    return torch.cat(losses), torch.cat(right)


def _parts(positions: int, vocabulary: int) -> list[slice]:
    size = max(1, CHUNK // vocabulary)
    return [slice(start, start + size) for start in range(0, positions, size)]
