"""Which groups of attention sit in which layer."""

import math
from collections.abc import Sequence

# 0.1 * 30 is 2.9999999999999996 in floating point, and means 3.
_ROUNDING = 1e-9


def layer_plan(shares: Sequence[float], pattern: str, n_layers: int) -> list[tuple[int, ...]]:
    """For each layer, early to late, the numbers of the groups whose attention it holds.

    sequential:  each group but the last gets floor(share * n_layers) layers, the last one the rest.
    alternating: the same counts, dealt in turn; when one group runs out the others go on.
    parallel:    every layer holds all groups.

    Raises:
        ValueError: another pattern.
    """
    if pattern == "parallel":
        return [tuple(range(len(shares)))] * n_layers
    counts = [math.floor(share * n_layers + _ROUNDING) for share in shares[:-1]]
    counts.append(n_layers - sum(counts))
    if pattern == "sequential":
        return [(group,) for group, count in enumerate(counts) for _ in range(count)]
    if pattern == "alternating":
        rounds = range(max(counts, default=0))
        return [(group,) for turn in rounds for group, count in enumerate(counts) if turn < count]
    raise ValueError(f"pattern={pattern}: expected sequential, alternating or parallel")


def covered_places(where: Sequence[str], places: Sequence[str]) -> list[str]:
    """The places of attention in a network that a list such as `model.ortho.where` means.

    A network that has a decoder alone takes `encoder` for it: a model's file is for both kinds.
    """
    alone = "decoder" in places and "encoder" not in places
    return [place for place in places if place in where or (alone and place == "decoder" and "encoder" in where)]
