"""Slow reference of BigBird: block by block, which others it sees; then softmax over their real keys."""

import math

import torch
from reference.heads import join, real_positions, split
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    assert memory is None and not causal
    q, k, v = (split(linear, x, module.n_heads) for linear in (module.q_proj, module.k_proj, module.v_proj))
    real = real_positions(mask, x)
    out = [[[torch.zeros_like(row) for row in head] for head in sample] for sample in v]
    for b in range(len(x)):
        n_blocks = math.ceil(len(real[b]) / module.block_size)
        for h in range(module.n_heads):
            for block in range(n_blocks):
                seen = seen_by(module, h, block, n_blocks)
                keys = torch.stack([k[b][h][j] for j in real[b] if j // module.block_size in seen])
                values = torch.stack([v[b][h][j] for j in real[b] if j // module.block_size in seen])
                for i in real[b]:
                    if i // module.block_size == block:
                        weights = torch.exp(keys @ q[b][h][i] / math.sqrt(keys.shape[1]))
                        out[b][h][i] = (weights / weights.sum()) @ values
    penalty = orthogonality_loss(v, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return join(module.out_proj, out), penalty


def seen_by(module: nn.Module, h: int, block: int, n_blocks: int) -> set[int]:
    """The blocks that a block of a sample of `n_blocks` sees: all, or near, global and random ones."""
    is_global = [j < module.global_first or j >= n_blocks - module.global_last for j in range(n_blocks)]
    if is_global[block]:
        return set(range(n_blocks))
    fixed = {j for j in range(n_blocks) if abs(j - block) <= module.reach or is_global[j]}
    rest = sorted(set(range(n_blocks)) - fixed, key=lambda j: priority(module, h, block, j), reverse=True)
    return fixed | set(rest[: module.random_blocks])


def priority(module: nn.Module, h: int, block: int, other: int) -> int:
    """The head's polynomial at the number of the pair, modulo 2^31 - 1."""
    a, b, c, d = module.coefficients[h].tolist()
    number = block * 2**15 + other
    return (a * number**3 + b * number**2 + c * number + d) % (2**31 - 1)
