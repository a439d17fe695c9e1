"""Rows chosen by an index: values and gradients of torch.gather."""

import torch
from support.tensors import draw
from torch import Tensor

from attnlab.kernels.drawn_rows import rows_at


def by_gather(x: Tensor, index: Tensor) -> Tensor:
    return x.gather(-2, index[..., None].expand(*index.shape, x.shape[-1]))


def test_rows_and_their_gradients_are_those_of_gather() -> None:
    for lead, n_rows, n_chosen in (((2, 3), 5, 8), ((4,), 1, 2), ((2, 1, 3), 4, 0)):
        x, index = draw(*lead, n_rows, 6).requires_grad_(), torch.randint(n_rows, (*lead, n_chosen))
        weights = draw(*lead, n_chosen, 6)
        result = rows_at(x, index)
        assert torch.equal(result, by_gather(x, index))
        slopes = [torch.autograd.grad((y * weights).sum(), x)[0] for y in (result, by_gather(x, index))]
        torch.testing.assert_close(*slopes)
