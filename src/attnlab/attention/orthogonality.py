"""Orthogonality loss on values (Park & Kim 2024, sections 1 and 3; the formula itself is not public).

    loss = mean over samples, heads and pairs i != j of real positions of one sequence of cos(v_i, v_j)^2

With rows scaled to length 1, the sum over all pairs of cos^2 is the squared Frobenius norm of V^T V (D x D) as much as
of V V^T (N x N). The smaller of the two is formed, so the cost is O(N D min(N, D)). The smallest value possible is
(n - D) / (D (n - 1)) for n > D.
"""

from jaxtyping import Bool, Float
from torch import Tensor

from attnlab.attention.precision import full_precision

# Squared length below which a value counts as having no direction; keeps gradients finite at zero vectors.
EPS = 1e-12


def orthogonality_loss(v: Float[Tensor, "B H N D"], mask: Bool[Tensor, "B N"] | None = None) -> Float[Tensor, ""]:
    """Mean squared cosine between values of different positions; sequences of fewer than two tokens are left out.

    Args:
        v: values of every head.
        mask: real positions; None = all.
    """
    with full_precision(v) as (v,):
        squared = v.square().sum(-1, keepdim=True)
        scale = (squared + EPS).rsqrt()
        if mask is not None:
            scale = scale * mask[:, None, :, None]
        unit = v * scale
        flipped = unit.transpose(-1, -2)
        gram = unit @ flipped if v.shape[2] <= v.shape[3] else flipped @ unit
        # The length of a row is subtracted rather than 1: a zero vector contributes nothing to the first sum either.
        same = (squared * scale.square()).square().sum((-1, -2))
        pairs_sum = gram.square().sum((-1, -2)) - same
        lengths = v.new_full((v.shape[0],), v.shape[2]) if mask is None else mask.sum(-1).to(v.dtype)
        pairs = lengths * (lengths - 1)
        counted = (lengths > 1).to(v.dtype)
        per_sample = pairs_sum.mean(-1) / pairs.clamp(min=1) * counted
        return per_sample.sum() / counted.sum().clamp(min=1)
