"""Slow reference of the gated attention unit: out_i = (u_i * sum_j a_ij v_j) Wo, one head.

FlashQuad: a_ij = relu(q_i . k_j / n + b_ij)^2. Flash: that for keys of the query's chunk with n = C, plus
q'_i . k'_j / C for keys of all chunks, or of earlier chunks in the causal form.
"""

import torch
from reference.heads import project, real_positions
from reference.orthogonality import orthogonality_loss
from torch import Tensor, nn

from attnlab.attention.flash import Flash


def attention(
    module: nn.Module, x: Tensor, memory: Tensor | None, mask: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """Output and penalty; padded queries see no key."""
    assert memory is None, "no cross-attention"
    real, samples, values = real_positions(mask, x), [], []
    weigh = mixed_chunk if isinstance(module, Flash) else quadratic
    for b in range(len(x)):
        z = [swish(project(module.z_proj, row)) for row in x[b]]
        u = [swish(project(module.u_proj, row)) for row in x[b]]
        v = [swish(project(module.v_proj, row)) for row in x[b]]
        weights, out = weigh(module, z), []
        for i in range(len(z)):
            seen = [j for j in real[b] if j <= i or not causal] if i in real[b] else []
            total = weights(i, seen, causal) @ torch.stack([v[j] for j in seen]) if seen else torch.zeros_like(v[0])
            out.append(project(module.out_proj, u[i] * total))
        samples.append(torch.stack(out))
        values.append([v])
    penalty = orthogonality_loss(values, real) if module.orthogonality else torch.zeros((), dtype=x.dtype)
    return torch.stack(samples), penalty


def quadratic(module: nn.Module, z: list[Tensor]):
    """The weights of the keys that a query sees."""
    q, k = copies(module, z, 0)

    def weights(i: int, seen: list[int], causal: bool) -> Tensor:
        n = module.max_length if module.divisor == "max_length" else len(seen)
        scores = torch.stack([k[j] for j in seen]) @ q[i] / n + bias(module, i, seen)
        return torch.clamp(scores, min=0) ** 2

    return weights


def mixed_chunk(module: nn.Module, z: list[Tensor]):
    """The weights of the keys that a query sees."""
    size = module.chunk_size
    (q, k), (q_linear, k_linear) = copies(module, z, 0), copies(module, z, 1)

    def weights(i: int, seen: list[int], causal: bool) -> Tensor:
        scores = torch.stack([k[j] for j in seen]) @ q[i] / size + bias(module, i, seen)
        linear = torch.stack([k_linear[j] for j in seen]) @ q_linear[i] / size
        same = torch.tensor([float(i // size == j // size) for j in seen])
        return same * torch.clamp(scores, min=0) ** 2 + (1 - same if causal else 1) * linear

    return weights


def copies(module: nn.Module, z: list[Tensor], pair: int) -> tuple[list[Tensor], list[Tensor]]:
    """Queries and keys of a pair: scaled, shifted, rotated."""
    return tuple(
        [rotated(row * scale[pair] + shift[pair], i) for i, row in enumerate(z)]
        for scale, shift in ((module.q_scale, module.q_shift), (module.k_scale, module.k_shift))
    )


def rotated(row: Tensor, position: int) -> Tensor:
    """Entry c and entry c + half are turned together, as a complex number, by position / 10000^(c / half)."""
    half = len(row) // 2
    angles = torch.tensor([position / 10000 ** (c / half) for c in range(half)], dtype=torch.float64)
    turned = torch.complex(row[:half], row[half:]) * torch.exp(1j * angles)
    return torch.cat((turned.real, turned.imag))


def bias(module: nn.Module, i: int, seen: list[int]) -> Tensor:
    """Entries of the table by distance, at most its last, or products of two rotated vectors."""
    made = module.position_bias
    if hasattr(made, "table"):
        reach = (len(made.table) + 1) // 2
        return made.table[[reach - 1 + max(min(j - i, reach - 1), 1 - reach) for j in seen]]
    return torch.stack([rotated(made.key, j) for j in seen]) @ rotated(made.query, i)


def swish(row: Tensor) -> Tensor:
    return row / (1 + torch.exp(-row))
