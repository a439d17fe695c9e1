"""Rows chosen by an index for each sample and head, with a gradient that needs one key per row.

The gradient of `torch.gather` needs an index for every number: on a GPU the deterministic form sorts all of them.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def rows_at(x: Float[Tensor, "*lead N C"], index: Int[Tensor, "*lead K"]) -> Float[Tensor, "*lead K C"]:
    """Row `index[..., k]` of the last but one axis of x, for every k; the first axes of both have equal sizes."""
    n_rows = x.shape[-2]
    first = torch.arange(0, math.prod(index.shape[:-1]) * n_rows, n_rows, device=index.device)
    # An embedding, not index_select: its rule for vmap keeps whole rows.
    return F.embedding(index + first.view(*index.shape[:-1], 1), x.flatten(0, -2))
