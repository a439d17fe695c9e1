"""Baselines of `benchmarks.attention`: forms of attention in other code, with the same results and other costs.

Queries, keys and values [B, H, N, D]; linear attention with phi = elu + 1 and the scaling and eps of
`attnlab.attention.linear`. performer-pytorch is run itself where it is installed (the extra `bench`), and so are the
kernels of flash-linear-attention on a GPU (the extra `fast`; causal only).
"""

import importlib.util
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from io import StringIO

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPS = 1e-5
Form = Callable[[Tensor, Tensor, Tensor, bool], Tensor]


def fused_softmax(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Fused softmax attention of torch, which keeps no N x N matrix."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


def explicit_softmax(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """All N x N weights."""
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(scores.new_ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(-1) @ v


def explicit_linear(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """All N x N weights."""
    q, k = _features(q, k)
    weights = q @ k.transpose(-1, -2)
    weights = weights.tril() if causal else weights
    return weights @ v / (weights.sum(-1, keepdim=True) + EPS)


def cumulative_sum(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Running sums of all outer products, [B, H, N, D, D], as in cosFormer's published code (causal only)."""
    q, k = _features(q, k)
    sums = torch.einsum("bhnd,bhne->bhnde", k, v).cumsum(2)
    divisor = torch.einsum("bhnd,bhnd->bhn", q, k.cumsum(2)) + EPS
    return torch.einsum("bhnde,bhnd->bhne", sums, q) / divisor[..., None]


def block_mask_softmax(q: Tensor, k: Tensor, v: Tensor, causal: bool, block: int = 64) -> Tensor:
    """Softmax within blocks of 64 by an N x N mask: DiagAttention without reshaping."""
    position = torch.arange(q.shape[2], device=q.device) // block
    mask = position[:, None] == position[None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.tril() if causal else mask)


def published_linear(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Functions of performer-pytorch on the features of linear attention."""
    from performer_pytorch import performer_pytorch as published

    q, k = _features(q, k)
    return published.causal_linear_attention_noncuda(q, k, v) if causal else published.linear_attention(q, k, v)


def published_performer(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """performer-pytorch's FastAttention with its default number of features, D ln D."""
    return _fast_attention(q.shape[-1], causal).to(q.device)(q, k, v)


def fla_chunks(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """Triton kernels of flash-linear-attention, several for each pass (causal only)."""
    from fla.ops.linear_attn import chunk_linear_attn

    return _by_fla(chunk_linear_attn, q, k, v)


def fla_fused_chunks(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """The same with one kernel for each pass (causal only)."""
    from fla.ops.linear_attn import fused_chunk_linear_attn

    return _by_fla(fused_chunk_linear_attn, q, k, v)


def _by_fla(kernel: Callable[..., tuple[Tensor, Tensor]], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Calls a kernel of fla, which reads and returns [B, N, H, D]; features and scaling are ours."""
    q, k = _features(q, k)
    out, _ = kernel(*(x.transpose(1, 2).contiguous() for x in (q, k, v)), scale=1.0, normalize=True)
    return out.transpose(1, 2)


@cache
def _fast_attention(width: int, causal: bool) -> nn.Module:
    from performer_pytorch import FastAttention

    # The package prints a message if it finds no CUDA kernel for its causal form.
    with redirect_stdout(StringIO()):
        return FastAttention(width, causal=causal)


def cumulative_sum_in_parts(q: Tensor, k: Tensor, v: Tensor, causal: bool, parts: int = 128) -> Tensor:
    """The same in 128 parts, which saves memory, as in performer-pytorch without its CUDA kernel (causal only)."""
    q, k = _features(q, k)
    outs, key_sum, outer_sum = [], 0.0, 0.0
    for q_part, k_part, v_part in zip(*(x.chunk(parts, dim=2) for x in (q, k, v)), strict=True):
        key_sums = key_sum + k_part.cumsum(2)
        outer_sums = outer_sum + torch.einsum("bhnd,bhne->bhnde", k_part, v_part).cumsum(2)
        divisor = torch.einsum("bhnd,bhnd->bhn", q_part, key_sums) + EPS
        outs.append(torch.einsum("bhnde,bhnd->bhne", outer_sums, q_part) / divisor[..., None])
        key_sum, outer_sum = key_sums[:, :, -1:], outer_sums[:, :, -1:]
    return torch.cat(outs, dim=2)


def _features(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    return F.elu(q * q.shape[-1] ** -0.5) + 1.0, F.elu(k) + 1.0


PUBLISHED = importlib.util.find_spec("performer_pytorch") is not None
FLA = importlib.util.find_spec("fla") is not None
BASELINE = "softmax, fused (torch)"

ANYWHERE: dict[str, Form] = {
    BASELINE: fused_softmax,
    "softmax, N x N": explicit_softmax,
    "softmax, fused, blocks by an N x N mask": block_mask_softmax,
    "linear, N x N": explicit_linear,
}
CAUSAL: dict[str, Form] = {
    "linear, cumulative sum": cumulative_sum,
    "linear, cumulative sum in 128 parts": cumulative_sum_in_parts,
}
PERFORMERS: dict[str, Form] = {
    "linear, performer-pytorch": published_linear,
    "performer, performer-pytorch": published_performer,
}
KERNELS: dict[str, Form] = {"linear, fla, chunks": fla_chunks, "linear, fla, fused chunks": fla_fused_chunks}


def baselines(causal: bool, device: torch.device) -> dict[str, Form]:
    """Returns the baselines that exist in this mode and run on this machine."""
    return {
        **ANYWHERE,
        **(CAUSAL if causal else {}),
        **(PERFORMERS if PUBLISHED else {}),
        **(KERNELS if causal and FLA and device.type == "cuda" else {}),
    }
