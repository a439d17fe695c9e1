"""Arrays that figures of attentions show, made from a network in `analysis.attention_statistics`; needs numpy alone.

Locality is section 3.2 of Qin et al. 2022; `neighbourhood_shares` says how windows are cut at the ends.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

RATIOS = np.linspace(0.0, 1.0, 101)
"""sizes of a neighbourhood, as shares of the length"""
_PLACE = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(attention|cross)(?:\.attentions\.(\d+))?(?:#(\d+))?$")


@dataclass(frozen=True)
class Norms:
    """L2 norms of queries and keys at all real positions of all samples, an array for each head."""

    queries: list[np.ndarray]
    keys: list[np.ndarray]


@dataclass(frozen=True)
class Maps:
    """A matrix [rows, columns] for each head, what rows and columns are called, and whose it is.

    rows, columns: names of positions; None = they are numbered.
    length: rows and columns that there are; long maps are cut.
    """

    heads: np.ndarray
    rows: Sequence[str] | None
    columns: Sequence[str] | None
    length: tuple[int, int]


@dataclass
class Locality:
    """Share of the attention inside a neighbourhood, by `RATIOS`: sums over real queries, heads and samples.

    uniform: what the same queries would have there if they attended to all that they see alike.
    """

    total: np.ndarray = field(default_factory=lambda: np.zeros(len(RATIOS)))
    uniform_total: np.ndarray = field(default_factory=lambda: np.zeros(len(RATIOS)))
    rows: int = 0
    uniform_rows: int = 0

    @property
    def shares(self) -> np.ndarray:
        return self.total / max(self.rows, 1)

    @property
    def uniform(self) -> np.ndarray:
        return self.uniform_total / max(self.uniform_rows, 1)

    def add(self, weights: np.ndarray, causal: bool) -> None:
        """One sample without its padding: weights [H, N, N]."""
        curve, rows = neighbourhood_shares(weights)
        n = weights.shape[-1]
        alike, seen = neighbourhood_shares(np.tri(n)[None] if causal else np.ones((1, n, n)))
        self.total += curve * rows
        self.uniform_total += alike * seen
        self.rows, self.uniform_rows = self.rows + rows, self.uniform_rows + seen


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What the attentions of one network do on one batch, by the names of `nn.attention_observer`.

    label: whose (`linear, seed 0`); about: on what (`64 examples of test/ood, weights of step 3000`).
    shown: the example that maps show; values_of: what the maps of values show, which may be a mean over all.
    Empty is what was not asked for, or does not exist (locality of cross-attention).
    """

    label: str
    about: str
    shown: str = ""
    values_of: str = ""
    norms: dict[str, Norms] = field(default_factory=dict)
    values: dict[str, Maps] = field(default_factory=dict)
    weights: dict[str, Maps] = field(default_factory=dict)
    locality: dict[str, Locality] = field(default_factory=dict)


def cosines(values: np.ndarray) -> np.ndarray:
    """Cosine similarity of all pairs of positions: [..., N, D] -> [..., N, N]; 0 beside a vector of zeros."""
    lengths = np.linalg.norm(values, axis=-1, keepdims=True)
    unit = np.divide(values, lengths, out=np.zeros_like(values), where=lengths > 0)
    return unit @ unit.swapaxes(-1, -2)


def neighbourhood_shares(weights: np.ndarray) -> tuple[np.ndarray, int]:
    """l(i, r, N) of section 3.2, averaged over queries and heads: the share of a query's weight that lies in the r N
    positions around it, for r of `RATIOS`.

    The window begins with the query's own position and takes in turn one more at the left and at the right; where one
    side ends it goes on at the other, so that every window has its r N positions (appendix F). Between whole
    positions the share is interpolated. N counts keys out of sight as well, whose weight is 0, so that curves of
    causal attention rise faster: the uniform curve of `Locality` says how fast. Weights that may be negative
    (NormAttention) count by their size. The appendix averages window sizes at a given share; this averages shares at a
    given size, as the section defines them.

    Args:
        weights: [H, N, N] of one sample without padding.

    Returns:
        the mean, and over how many rows it is: a row without any weight has no shares.
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


def titles(names: Iterable[str]) -> dict[str, str]:
    """Names of attentions as a reader says them: `encoder.layers.0.attention#2` is `encoder, layer 1, use 2`.

    Where an attention is used once, its use is not numbered. A name of another form stays as it is.
    """
    names = list(names)
    repeated = {name.partition("#")[0] for name in names if "#" in name}
    return {name: _title(name, name.partition("#")[0] in repeated) for name in names}


def _title(name: str, repeated: bool) -> str:
    found = _PLACE.search(name)
    if found is None:
        return name
    stack, layer, part, member, use = found.groups()
    words = [stack, f"layer {int(layer) + 1}"]
    words += ["cross"] if part == "cross" else []
    words += [f"part {int(member) + 1}"] if member is not None else []
    return ", ".join([*words, *([f"use {use or 1}"] if repeated else [])])


def is_cross(name: str) -> bool:
    """Whether the queries of an attention are of another sequence than its keys."""
    found = _PLACE.search(name)
    return found is not None and found[3] == "cross"
