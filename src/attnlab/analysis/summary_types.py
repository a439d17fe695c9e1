"""Summary of the attentions of one network: the arrays that figures show, computed in `analysis.compute_summary`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from attnlab.analysis.locality import Locality

MOST_POSITIONS = 128
"""limit of rows and columns of a map; longer sequences are cut"""


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
