"""Fused softmax attention in parts, and the kernel of cuDNN, which stays off."""

import re

import pytest
import torch
from support.tensors import draw, masks
from torch import Tensor

from attnlab.config.shipped_files import CONF
from attnlab.kernels import fused_attention as kernel
from attnlab.kernels.fused_attention import fused_attention


@pytest.mark.parametrize("keep", [None, masks([5, 2, 1, 3, 4, 5, 2], 5)[:, None, None], masks([3], 5)[:, None, None]])
def test_a_batch_that_is_too_large_goes_in_parts(keep: Tensor | None, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [draw(7, 2, 5, 4).requires_grad_() for _ in range(3)]
    whole = fused_attention(*inputs, keep, keep is None, 0.0)
    slopes = torch.autograd.grad(whole.square().sum(), inputs)
    sizes, fused = [], torch.nn.functional.scaled_dot_product_attention

    def counted(q: Tensor, *args, **options) -> Tensor:
        sizes.append(len(q))
        return fused(q, *args, **options)

    monkeypatch.setattr(kernel, "LARGEST", {"cpu": 3})
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    parts = fused_attention(*inputs, keep, keep is None, 0.0)
    assert sizes == [3, 3, 1]
    torch.testing.assert_close(parts, whole)
    torch.testing.assert_close(torch.autograd.grad(parts.square().sum(), inputs), slopes)


def test_the_kernel_of_cudnn_is_off_wherever_attention_is_computed() -> None:
    """One file calls the fused kernels, so that nothing here computes attention before it turns the kernel off."""
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled() and torch.backends.cuda.mem_efficient_sdp_enabled()
    called = re.compile(r"scaled_dot_product_attention\(|MultiheadAttention\(")
    files = (CONF.parent / "src").rglob("*.py")
    assert [file.stem for file in files if called.search(file.read_text())] == ["fused_attention"]
