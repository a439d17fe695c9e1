"""BaseConv: the published layer, and the weights of its diagnostics."""

import torch
from torch import nn

from attnlab.attention.recurrent.base_conv import BaseConv


def test_the_layer_is_the_published_one() -> None:
    """As in HazyResearch/zoology (mixers/base_conv.py, d88d6f5): a linear map times a convolution of torch, and the
    input."""
    layer = BaseConv(8, 1, convolution=3).double()
    convolution = nn.Conv1d(8, 8, 3, groups=8, padding=2).double()
    convolution.weight = nn.Parameter(layer.convolution.weight.T[:, None].clone())
    convolution.bias = layer.shift
    x = torch.randn(2, 11, 8, dtype=torch.float64)
    convolved = convolution(x.transpose(1, 2))[..., :11].transpose(1, 2)
    torch.testing.assert_close(layer(x, causal=True)[0], convolved * layer.q_proj(x) + x, rtol=0, atol=1e-14)


def test_weights_of_heads_of_one_column_give_the_output() -> None:
    attention = BaseConv(8, 8).double()
    q, v = (torch.randn(2, 8, 7, 1, dtype=torch.float64) for _ in range(2))
    mask = torch.arange(7) < torch.tensor([[7], [4]])
    v = v * mask[:, None, :, None]
    weights = attention.weights(q, v, mask, True)
    torch.testing.assert_close(weights @ v, attention.attend(q, v, v, mask, True), rtol=0, atol=1e-14)
    assert not weights[1, :, :, 4:].any()
