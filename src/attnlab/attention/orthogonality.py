"""Orthogonality loss on values (Park & Kim 2024, sections 1 and 3; the formula itself is not public).

Per head, over the n real positions of one sequence, then the mean over heads and samples:

    null             mean over pairs i != j of cos(v_i, v_j)^2
    frobenius        the sum of them: |U U^T - I|_F^2 with rows U of length 1, n (n - 1) times the mean
    unnormalized     |V V^T - I|_F^2, which also pulls every length to 1
    absolute_cosine  mean over pairs i != j of |cos(v_i, v_j)|

With rows scaled to length 1, the sum over all pairs of cos^2 is the squared Frobenius norm of V^T V (D x D) as much as
of V V^T (N x N). The smaller of the two is formed, so the first three cost O(N D min(N, D)); absolute values have no
such form, and cost O(N^2 D) and N^2 numbers of memory a head. The smallest mean of cos^2 possible is
(n - D) / (D (n - 1)) for n > D. The two sums grow with n, and the unnormalized one with the size of values as well, so
they ask for smaller weights than the means.
"""

from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.attention.precision import full_precision
from attnlab.config.schema import OrthoForm

# Squared length below which a value counts as having no direction; keeps gradients finite at zero vectors.
EPS = 1e-12


def orthogonality_loss(
    v: Float[Tensor, "B H N D"], mask: Bool[Tensor, "B N"] | None = None, form: OrthoForm | None = None
) -> Float[Tensor, ""]:
    """How far values of different positions are from orthogonal; sequences of fewer than two tokens are left out.

    Args:
        v: values of every head.
        mask: real positions; None = all.
        form: None = mean squared cosine; else as above.
    """
    with full_precision(v) as (v,):
        lengths = v.new_full((v.shape[0],), v.shape[2]) if mask is None else mask.sum(-1).to(v.dtype)
        if form == "unnormalized":
            per_head = _distance_from_identity(v, mask, lengths)
        else:
            per_head = _sum_over_pairs(v, mask, absolute=form == "absolute_cosine")
        per_sample, counted = per_head.mean(-1), (lengths > 1).to(v.dtype)
        if form in (None, "absolute_cosine"):
            per_sample = per_sample / (lengths * (lengths - 1)).clamp(min=1)
        return (per_sample * counted).sum() / counted.sum().clamp(min=1)


def _sum_over_pairs(
    v: Float[Tensor, "B H N D"], mask: Bool[Tensor, "B N"] | None, absolute: bool
) -> Float[Tensor, "B H"]:
    """Squared (or absolute) cosines of all pairs of different real positions, summed."""
    squared = v.square().sum(-1, keepdim=True)
    scale = (squared + EPS).rsqrt()
    if mask is not None:
        scale = scale * mask[:, None, :, None]
    unit = v * scale
    # The length of a row is subtracted rather than 1: a zero vector contributes nothing to the first sum either.
    own = squared * scale.square()
    if absolute:
        return (unit @ unit.transpose(-1, -2)).abs().sum((-1, -2)) - own.sum((-1, -2))
    return _smaller_gram(unit).square().sum((-1, -2)) - own.square().sum((-1, -2))


def _distance_from_identity(
    v: Float[Tensor, "B H N D"], mask: Bool[Tensor, "B N"] | None, lengths: Float[Tensor, " B"]
) -> Float[Tensor, "B H"]:
    """|V V^T - I|_F^2 = |V V^T|_F^2 - 2 |V|_F^2 + n over real positions."""
    if mask is not None:
        v = v.masked_fill(~mask[:, None, :, None], 0.0)
    return _smaller_gram(v).square().sum((-1, -2)) - 2 * v.square().sum((-1, -2)) + lengths[:, None]


def _smaller_gram(rows: Float[Tensor, "B H N D"]) -> Float[Tensor, "B H G G"]:
    """Of V V^T and V^T V, which have the same Frobenius norm."""
    flipped = rows.transpose(-1, -2)
    return rows @ flipped if rows.shape[2] <= rows.shape[3] else flipped @ rows
