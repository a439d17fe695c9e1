"""Cross-entropy over large vocabularies, computed in chunks of positions, so that logits need little memory.

At WikiText-103's published settings (65,536 tokens a batch, 267,735 words) all logits would take 70 GB in float32. Here
the gradients of each chunk are computed together with its losses and summed: at most `CHUNK` logits exist at once, and
there is no second pass over the vocabulary.

The sum is a custom operator (`torch.ops.attnlab.scored_losses`), which a compiled graph takes whole: the number of
scored positions depends on the data, which such a graph does not support.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

CHUNK = 2**26
"""limit of logits in a chunk, 256 MiB in float32; with smaller chunks most time goes into summing weight gradients"""

Sums = tuple[Tensor, Tensor, Tensor, Tensor]
_SCHEMA = (
    "(Tensor hidden, Tensor weight, Tensor bias, Tensor targets, Tensor scored, ScalarType dtype, bool slopes)"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)


def chunked_cross_entropy(
    hidden: Float[Tensor, "*positions E"],
    weight: Float[Tensor, "V E"],
    bias: Float[Tensor, " V"],
    targets: Int[Tensor, "*positions"],
    scored: Bool[Tensor, "*positions"] | None = None,
) -> Float[Tensor, ""]:
    """Mean of -log softmax(hidden weight^T + bias)[target] over the scored positions (None: all); 0 without any.

    Equals torch's up to rounding. First derivatives only. Products are in autocast's format, sums at least in float32.
    """
    scored = torch.ones_like(targets, dtype=torch.bool) if scored is None else scored
    device, dtype = hidden.device.type, hidden.dtype
    if torch.is_autocast_enabled(device) and dtype != torch.float64:
        dtype = torch.get_autocast_dtype(device)
    read, slopes = (hidden, weight, bias), torch.is_grad_enabled()
    total, *grads = scored_losses(*(x.detach() for x in read), targets, scored, dtype, slopes)
    if slopes:
        total = total + sum(_nothing_with_slope(x, grad) for x, grad in zip(read, grads, strict=True))
    return total / scored.sum().clamp(min=1)


def _nothing_with_slope(x: Tensor, grad: Tensor) -> Tensor:
    """Zero, with gradient `grad` with respect to x. Unlike an autograd.Function it works in every torch transform."""
    product = torch.dot(x.flatten(), grad.flatten())
    return product - product.detach()


def sum_in_chunks(
    hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, scored: Tensor, dtype: torch.dtype, slopes: bool
) -> Sums:
    """The sum of the losses, and its gradients with respect to hidden states, weights and biases.

    Args:
        hidden [..., E], weight [V, E], bias [V], targets [...], scored [...]: as above.
        dtype: format of the products.
        slopes: compute the gradients; else they are empty.
    """
    states, answers = hidden.flatten(0, -2), targets.flatten()
    positions = scored.flatten().nonzero()[:, 0]
    total, of_hidden, of_weight, of_bias = _zeros(hidden, weight, bias, slopes)
    # cast once, not for every chunk
    low_weight, low_bias = weight.to(dtype), bias.to(dtype)
    # in float16 most probabilities over a large vocabulary would be rounded to 0
    slope_dtype = total.dtype if dtype == torch.float16 else dtype
    slope_weight = low_weight if slope_dtype == dtype else weight.to(slope_dtype)
    with torch.autocast(device_type=hidden.device.type, enabled=False):
        for part in _parts(len(positions), len(weight)):
            x, y = states[positions[part]], answers[positions[part]][:, None]
            probabilities = F.linear(x.to(dtype), low_weight, low_bias).to(total.dtype)
            spread = probabilities.logsumexp(-1, keepdim=True)
            total += (spread - probabilities.gather(-1, y)).sum()
            if slopes:
                slope = probabilities.sub_(spread).exp_().scatter_add_(-1, y, -torch.ones_like(spread))
                _add_gradients((of_hidden, of_weight, of_bias), slope.to(slope_dtype), x, slope_weight, positions[part])
    return total, of_hidden, of_weight, of_bias


def _zeros(hidden: Tensor, weight: Tensor, bias: Tensor, slopes: bool) -> Sums:
    """Zeros for the sum and its gradients, these in the precision of the parameters."""
    total = hidden.new_zeros((), dtype=torch.promote_types(hidden.dtype, torch.float32))
    like_hidden, like_weight, like_bias = (
        torch.zeros_like(x) if slopes else x.new_empty(0) for x in (hidden, weight, bias)
    )
    return total, like_hidden, like_weight, like_bias


def _add_gradients(
    grads: tuple[Tensor, Tensor, Tensor], slope: Tensor, x: Tensor, weight: Tensor, positions: Tensor
) -> None:
    """Add the gradients of a chunk in place."""
    of_hidden, of_weight, of_bias = grads
    of_hidden.flatten(0, -2)[positions] = (slope @ weight).to(of_hidden.dtype)
    if of_weight.dtype == slope.dtype:
        # in place: another matrix of this size, and a pass over it, would cost more than the product
        of_weight.addmm_(slope.T, x.to(slope.dtype))
    else:
        of_weight += slope.T @ x.to(slope.dtype)
    of_bias += slope.sum(0)


# Counting the scored positions waits for the GPU, which is not allowed inside a CUDA graph; torch 2.6 lacks the tag.
_TAGS: dict[str, Any] = {"tags": (torch.Tag.cudagraph_unsafe,)} if hasattr(torch.Tag, "cudagraph_unsafe") else {}
scored_losses = torch.library.custom_op(
    "attnlab::scored_losses", sum_in_chunks, mutates_args=(), schema=_SCHEMA, **_TAGS
)
"""`sum_in_chunks` for torch.compile"""


@scored_losses.register_fake
def _(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Any, scored: Any, dtype: Any, slopes: bool) -> Sums:
    return _zeros(hidden, weight, bias, slopes)


@torch.no_grad()
def token_losses(
    hidden: Float[Tensor, "T E"], weight: Float[Tensor, "V E"], bias: Float[Tensor, " V"], targets: Int[Tensor, " T"]
) -> tuple[Float[Tensor, " T"], Bool[Tensor, " T"]]:
    """The loss at every position, in float32 at least, and whether the most likely token is the target."""
    dtype = torch.promote_types(hidden.dtype, torch.float32)
    losses, right = [hidden.new_zeros(0, dtype=dtype)], [targets.new_zeros(0, dtype=torch.bool)]
    for part in _parts(len(hidden), len(weight)):
        logits = F.linear(hidden[part], weight, bias)
        losses.append(F.cross_entropy(logits.to(dtype), targets[part], reduction="none"))
        right.append(logits.argmax(-1) == targets[part])
    return torch.cat(losses), torch.cat(right)


def _parts(positions: int, vocabulary: int) -> list[slice]:
    size = max(1, CHUNK // vocabulary)
    return [slice(start, start + size) for start in range(0, positions, size)]
