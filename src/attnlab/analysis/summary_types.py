"""Summary of the attentions of one network: the arrays that figures show, computed in `analysis.compute_summary`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

MOST_POSITIONS = 128
"""limit of rows and columns of a map; longer sequences are cut"""


RATIOS = np.linspace(0.0, 1.0, 101)
"""sizes of a neighbourhood, as shares of the length"""


@dataclass
class Locality:
    """Share of the attention inside a neighbourhood, by `RATIOS`: sums over real queries, heads and samples."""

    totals: np.ndarray = field(default_factory=lambda: np.zeros((2, len(RATIOS))))
    """of the attention and of uniform attention"""
    rows: np.ndarray = field(default_factory=lambda: np.zeros((2, 1)))
    """that the totals are over"""

    @property
    def shares(self) -> np.ndarray:
        return (self.totals / self.rows.clip(1))[0]

    @property
    def uniform(self) -> np.ndarray:
        """Mean share of uniform attention over the same queries."""
        return (self.totals / self.rows.clip(1))[1]

    def add(self, weights: np.ndarray, causal: bool) -> None:
        """Add one sample without its padding: weights [H, N, N]."""
        n = weights.shape[-1]
        for at, each in enumerate((weights, np.tri(n)[None] if causal else np.ones((1, n, n)))):
            curve, rows = neighbourhood_shares(each)
            self.totals[at] += curve * rows
            self.rows[at] += rows


def neighbourhood_shares(weights: np.ndarray) -> tuple[np.ndarray, int]:
    """l(i, r, N) of section 3.2, averaged over queries and heads: the share of a query's weight in the r N positions
    around it, for r of `RATIOS`.

    The window starts at the query's position and grows by one position at the left and at the right in turn; at an end
    of the sequence it grows at the other side, so that every window has r N positions (appendix F). The share is
    interpolated between whole positions. N includes future keys, whose weight is 0, so curves of causal attention rise
    faster, as the uniform curve of `Locality` shows. Negative weights (NormAttention) count by their absolute value.
    The appendix averages window sizes at a given share; this averages shares at a given size, as section 3.2 does.

    Args:
        weights: [H, N, N] of one sample without padding.

    Returns:
        the mean, and the number of rows in it: rows without any weight have no shares.
    """
    size = np.abs(weights.astype(np.float64))
    n = size.shape[-1]
    distance = np.arange(n)[None] - np.arange(n)[:, None]
    nearest_first = np.argsort(2 * np.abs(distance) - (distance < 0), axis=-1, kind="stable")
    inside = np.take_along_axis(size, nearest_first[None], axis=-1).cumsum(-1)
    whole = inside[..., -1]
    counted = np.isfinite(whole) & (whole > 0)
    if not counted.any():
        return np.zeros(len(RATIOS)), 0
    mean = (inside[counted] / whole[counted][:, None]).mean(0)
    return np.interp(RATIOS * n, np.arange(n + 1), np.concatenate(([0.0], mean))), int(counted.sum())


@dataclass(frozen=True)
class Norms:
    """L2 norms of queries and keys at the real positions of all samples, one array per head."""

    queries: list[np.ndarray]
    keys: list[np.ndarray]

    def joined(self, other: "Norms") -> "Norms":
        """Norms of the samples of both, head by head."""
        queries = map(np.concatenate, zip(self.queries, other.queries, strict=True))
        return Norms(list(queries), list(map(np.concatenate, zip(self.keys, other.keys, strict=True))))


@dataclass(frozen=True)
class Maps:
    """A matrix [rows, columns] for each head, with labels of rows and columns.

    rows, columns: labels of positions; None = they are numbered.
    length: number of rows and columns before long maps were cut.
    sums: lowest and highest sum of a query's weights, where they were divided by the sum of their sizes; else None.
    """

    heads: np.ndarray
    rows: Sequence[str] | None
    columns: Sequence[str] | None
    length: tuple[int, int]
    sums: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class AttentionSummary:
    """Arrays of the attentions of one network on one batch, by the names of `nn.attention_observer`.

    label: the network (`linear, seed 0`); about: examples and weights (`64 examples of test/ood, step 3000`).
    normalization: of queries and keys by the network (`none`, `l2`); norms are of queries and keys before it.
    weights: times the number of keys that a query sees, so that uniform attention is 1 (`compute_summary`).
    shown: the example in maps; values_of: the example in maps of values, or the examples that they are a mean over.
    Empty dictionaries: quantities that were not requested or do not exist (locality of cross-attention).
    """

    label: str
    about: str
    normalization: str = ""
    shown: str = ""
    values_of: str = ""
    norms: dict[str, Norms] = field(default_factory=dict)
    values: dict[str, Maps] = field(default_factory=dict)
    weights: dict[str, Maps] = field(default_factory=dict)
    locality: dict[str, Locality] = field(default_factory=dict)
