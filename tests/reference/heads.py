"""Shared parts of the slow references, in plain loops: projections, heads, real positions."""

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType

import torch
from torch import Tensor, nn

Heads = list[list[list[Tensor]]]
"""For each sample, head and position a vector of the head's width."""


def project(linear: nn.Linear, row: Tensor) -> Tensor:
    """W x + b for one position."""
    return linear.weight @ row if linear.bias is None else linear.weight @ row + linear.bias


def split(linear: nn.Linear, x: Tensor, n_heads: int) -> Heads:
    """Every position projected and cut into heads."""
    samples = [[project(linear, row).chunk(n_heads) for row in sample] for sample in x]
    return [[[row[head] for row in rows] for head in range(n_heads)] for rows in samples]


def join(linear: nn.Linear, heads: Heads) -> Tensor:
    """Heads side by side, through the output projection."""
    samples = []
    for sample in heads:
        positions = range(len(sample[0]))
        samples.append(torch.stack([project(linear, torch.cat([head[i] for head in sample])) for i in positions]))
    return torch.stack(samples)


def real_positions(mask: Tensor | None, x: Tensor) -> list[list[int]]:
    """The positions of each sample that are not padding."""
    return [[j for j in range(x.shape[1]) if mask is None or mask[b, j]] for b in range(len(x))]


def reference_of(positions: nn.Module | None) -> ModuleType:
    """The slow reference of an attention's positions: `reference/positions/<name of their file>.py`."""
    name = "none" if positions is None else type(positions).__module__.rpartition(".")[2]
    return importlib.import_module(f"reference.positions.{name}")


def placed(
    positions: nn.Module | None, h: int, queries: Sequence[Tensor], keys: Sequence[Tensor], causal: bool
) -> tuple[list[Tensor], list[Tensor], Callable[[int, int], Tensor | float]]:
    """Queries and keys of head h at their positions, and what is added to the scaled product of query i and key j."""
    reference = reference_of(positions)
    return (
        [reference.query(positions, h, i, row) for i, row in enumerate(queries)],
        [reference.key(positions, h, j, row) for j, row in enumerate(keys)],
        lambda i, j: reference.added(positions, h, i, j, queries[i], causal),
    )
