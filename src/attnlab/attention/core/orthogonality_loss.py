"""Orthogonality loss on values (Park & Kim 2024, sections 1 and 3; the formula is not public).

Per head, over the n real positions of one sequence, then the mean over heads and samples. V has the values as rows, U
the same rows scaled to length 1:

    null                    m = mean over pairs i != j of cos(v_i, v_j)^2
    frobenius               |U U^T - I|_F^2 = n (n - 1) m, the sum over these pairs
    frobenius_unsquared     |U U^T - I|_F = sqrt(n (n - 1) m)
    unnormalized            |V V^T - I|_F^2, which also pulls lengths to 1
    unnormalized_unsquared  |V V^T - I|_F
    absolute_cosine         mean over pairs i != j of |cos(v_i, v_j)|

`values: full_width` takes one vector per position, all heads side by side, in place of one per head.

A weight w on another form has the gradient of this weight on m, with n (n - 1) = 110 pairs at 11 tokens (the longest
inputs of SCAN), 650 at 26 (sort-of-CLEVR):

    frobenius               n (n - 1) w: a published 0.01 is 6.5 at 26 tokens
    frobenius_unsquared     w sqrt(n (n - 1) / m) / 2, which rises as m falls: 0.01 is 0.4 at 26 tokens and m = 0.1
    unnormalized            n (n - 1) w if values have length 1; at length s, s^4 times as much on their directions
    unnormalized_unsquared  as `unnormalized` with weight w / (2 x), at the present value x of this form
    absolute_cosine         no constant: a pair with |cos| = c is pulled as by w / (2 c)

So sums need smaller weights, and weigh long sequences more. Code that sums over heads, layers or samples, where here
means are taken, has one more factor: their number. Means at full width are smaller for random values, of which m is
1 / width.

The sum over all pairs of cos^2 is the squared Frobenius norm of U U^T (N x N) and also of U^T U (D x D). The smaller
matrix is computed, so all forms cost O(N D min(N, D)) but absolute values, which have no such form: O(N^2 D), and N^2
numbers of memory per head. At full width D is the model width: with n > D that is H times as many products as per head.
Of a training step (losses alone, one thread of a busy CPU, `python -m benchmarks.orthogonality_loss`) the first three
forms took 1 % on SCAN, 2 to 3 % on sort-of-CLEVR and 4.3 to 5.7 % at LRA's sizes (64 to 4,096 tokens), at either width;
the unnormalized ones, which autograd differentiates, 2, 6 and 8 %.
The smallest possible m is (n - D) / (D (n - 1)) for n > D. At 0 the norms, as square roots, have no derivative; there
the gradient is 0.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.linalg import vecdot

from attnlab.attention.core.mask_forms import zero_at_padding
from attnlab.attention.core.sum_precision import full_precision, squared_lengths
from attnlab.attention.core.tensor_types import SelfMask
from attnlab.config.schema import OrthoForm, OrthoValues
from attnlab.kernels.direct_function import DirectFunction, result_of

# Added to squared lengths; keeps gradients finite at zero vectors.
EPS = 1e-12


def orthogonality_loss(
    v: Float[Tensor, "B H N D"],
    mask: SelfMask | None = None,
    form: OrthoForm | None = None,
    values: OrthoValues = "per_head",
) -> Float[Tensor, ""]:
    """Distance of the values of different positions from orthogonality; without sequences of fewer than two tokens.

    Args:
        v: values of every head.
        mask: real positions, None = all; the others may hold anything.
        form: None = mean squared cosine; other forms as above.
        values: per_head, or full_width: the heads of a position as one vector.
    """
    return loss_of_finite_values(zero_at_padding(v, mask), mask, form, values)


def loss_of_finite_values(
    v: Float[Tensor, "B H N D"], mask: SelfMask | None, form: OrthoForm | None, values: OrthoValues
) -> Float[Tensor, ""]:
    """`orthogonality_loss` of values that are finite at padding, as a mechanism projects them: zeros there would take
    half as long as the loss.
    """
    with full_precision(v if values == "per_head" else _joined(v)) as (v,):
        keep = None if mask is None else mask[:, None].to(v.dtype)
        lengths = v.shape[2] if keep is None else keep.sum((1, 2))
        if form in ("unnormalized", "unnormalized_unsquared"):
            per_head = _distance_from_identity(v, mask, lengths)
        elif form == "absolute_cosine":
            per_head = _absolute_cosines(v, keep)
        else:
            per_head = squared_cosines(v, keep)
        if form in ("frobenius_unsquared", "unnormalized_unsquared"):
            per_head = _root(per_head)
        return _mean_over_sequences(per_head, lengths, over_pairs=form in (None, "absolute_cosine"))


def _mean_over_sequences(per_head: Float[Tensor, "B H"], lengths: int | Tensor, over_pairs: bool) -> Tensor:
    """Mean over heads and over sequences of at least two tokens; `lengths` (B) or one length of all."""
    per_sample = per_head.mean(-1)
    if isinstance(lengths, int):
        # the same as below, in numbers that need no tensors
        per_sample = per_sample / max(lengths * (lengths - 1), 1) if over_pairs else per_sample
        return per_sample.sum() / max(len(per_sample), 1) * float(lengths > 1)
    per_sample = per_sample / (lengths * (lengths - 1)).clamp(min=1) if over_pairs else per_sample
    counted = (lengths > 1).to(per_head.dtype)
    return (per_sample * counted).sum() / counted.sum().clamp(min=1)


def _joined(v: Float[Tensor, "B H N D"]) -> Float[Tensor, "B 1 N HD"]:
    """The heads of every position side by side, as before they were split."""
    return v.transpose(1, 2).flatten(-2).unsqueeze(1)


def _root(x: Tensor) -> Tensor:
    """Square root with gradient 0 at 0, and 0 for negative numbers, which are sums rounded below 0."""
    positive = x > 0
    return torch.where(positive, torch.where(positive, x, 1.0).sqrt(), 0.0)


def squared_cosines(v: Float[Tensor, "B H N D"], keep: Float[Tensor, "B 1 N"] | None) -> Float[Tensor, "B H"]:
    """cos(v_i, v_j)^2 of all pairs of different real positions, summed.

    Args:
        keep: 1 at real positions, 0 at padding; None = no padding.
    """
    # Heads lie between positions in memory: one copy here instead of one in every matrix product.
    return result_of(_SquaredCosines, v.contiguous(), keep)[0]


class _SquaredCosines(DirectFunction):
    """The sum over pairs with an explicit gradient, once differentiable: half the time of autograd.

    With G = V V^T and s_i = keep_i / (|v_i|^2 + eps), with eps for zero vectors, the sum is over i != j of

        s_i s_j G_ij^2,   and the sum over all i, j is trace(S G S G) = |M|_F^2,  M = V^T S V

    n <= D: G is computed; its diagonal contains the squared lengths, so V is read once.
    n > D: M is computed, and the pairs i = j are subtracted: the sum of a_i^2, a_i = s_i |v_i|^2.

    v_i acts through G or M and through s_i, of which d s_i = -2 s_i^2 v_i . dv_i. So the gradient in v_i is

        n <= D: 4 (W V)_i,  W_ij = s_i s_j G_ij,  W_ii = -s_i sum_{j != i} W_ij G_ij
        n > D: 4 s_i (M v_i - s_i (v_i . M v_i) v_i - a_i (1 - a_i) v_i)
    """

    @staticmethod
    def forward(v: Tensor, keep: Tensor | None) -> tuple[Tensor, ...]:
        """The sum per head, and the tensors that the gradient needs in addition to v."""
        if v.shape[-2] > v.shape[-1]:
            squared = squared_lengths(v)
            scale = _inverse(squared, keep)
            gram, diagonal = v.transpose(-1, -2) @ (v * scale[..., None]), scale * squared
            return vecdot(gram.flatten(-2), gram.flatten(-2)) - vecdot(diagonal, diagonal), gram, scale, diagonal
        gram = v @ v.transpose(-1, -2)
        diagonal = gram.diagonal(dim1=-2, dim2=-1)
        scale = _inverse(diagonal, keep)
        # Set to zero rather than subtracted later: the remaining sum may be far smaller.
        diagonal.zero_()
        weights = gram * scale[..., None, :] * scale[..., None]
        rows = vecdot(weights, gram)
        return rows.sum(-1), weights, scale, rows

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor | None], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(inputs[0], *output[1:])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *rest: Tensor) -> tuple[Tensor, None]:
        # In full precision too when the gradient is computed under autocast.
        with full_precision(*ctx.saved_tensors) as (v, matrix, scale, sums):
            factor = 4 * grad[..., None]
            matrix = matrix * factor[..., None]
            if v.shape[-2] > v.shape[-1]:
                out = v @ matrix
                along = scale * vecdot(out, v) + factor * sums * (1 - sums)
                return torch.addcmul(out, v, along[..., None], value=-1).mul_(scale[..., None]), None
            matrix.diagonal(dim1=-2, dim2=-1).copy_(-factor * scale * sums)
            return matrix @ v, None


def _inverse(squared: Tensor, keep: Tensor | None) -> Tensor:
    """The inverse of squared lengths; 0 at padding."""
    return (squared + EPS).reciprocal_() if keep is None else keep / (squared + EPS)


def _absolute_cosines(v: Float[Tensor, "B H N D"], keep: Float[Tensor, "B 1 N"] | None) -> Float[Tensor, "B H"]:
    """|cos(v_i, v_j)| of all pairs of different real positions, summed."""
    squared = v.square().sum(-1)
    scale = (squared + EPS).rsqrt()
    scale = scale if keep is None else scale * keep
    unit = v * scale[..., None]
    # The length of a row is subtracted rather than 1: a zero vector contributes nothing to the first sum either.
    return (unit @ unit.transpose(-1, -2)).abs().sum((-1, -2)) - (squared * scale.square()).sum(-1)


def _distance_from_identity(
    v: Float[Tensor, "B H N D"], mask: SelfMask | None, lengths: int | Tensor
) -> Float[Tensor, "B H"]:
    """|V V^T - I|_F^2 = |V V^T|_F^2 - 2 |V|_F^2 + n over real positions."""
    v = zero_at_padding(v, mask)
    flipped = v.transpose(-1, -2)
    # V V^T and V^T V have the same Frobenius norm.
    gram = v @ flipped if v.shape[2] <= v.shape[3] else flipped @ v
    return (
        gram.square().sum((-1, -2))
        - 2 * v.square().sum((-1, -2))
        + (lengths if isinstance(lengths, int) else lengths[:, None])
    )
