"""Doubly normalised attention: no key is explained away."""

import torch
from support.tensors import draw, masks

from attnlab.attention.doubly_normalized import DoublyNormalizedAttention
from attnlab.attention.softmax import SoftmaxAttention


def test_no_key_is_explained_away() -> None:
    """Over all queries each of M keys has weight 1/M at least, also where softmax attention gives it almost none."""
    q, k, mask = draw(2, 2, 6, 4), draw(2, 2, 6, 4), masks([6, 4], 6)
    q[..., 0], k[..., 0] = 10, 10
    k[:, :, 2, 0] = -10
    attended = {
        kind: kind(8, 2).double().weights(q, k, mask, False)[0].sum(-2).min()
        for kind in (DoublyNormalizedAttention, SoftmaxAttention)
    }
    assert attended[SoftmaxAttention] < 1e-30 and attended[DoublyNormalizedAttention] >= 1 / 6
    weights = DoublyNormalizedAttention(8, 2).double().weights(q, k, mask, False)[1, :, :4]
    assert (weights.sum(-2)[:, :4] >= 1 / 4 - 1e-12).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, dtype=torch.float64))
