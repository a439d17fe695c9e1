"""Which groups of attention sit in which layer."""

import math
from collections.abc import Sequence

# 0.1 * 30 is 2.9999999999999996 in floating point, and means 3.
_ROUNDING = 1e-9


def filled_shares(shares: Sequence[float | None]) -> list[float]:
    """Shares of the depth as numbers: null is what the other groups leave."""
    rest = round(1 - sum(share for share in shares if share is not None), 9)
    return [rest if share is None else share for share in shares]


def layer_plan(shares: Sequence[float | None], pattern: str, n_layers: int) -> list[tuple[int, ...]]:
    """For each layer, early to late, the numbers of the groups whose attention it holds.

    sequential:  each group but the last gets floor(share * n_layers) layers, the last one the rest.
    alternating: the same counts, dealt in turn; when one group runs out the others go on.
    parallel:    every layer holds all groups.
    sequential_reversed, alternating_reversed: the same counts, the last group first.

    A group of share 0 is nowhere, and not the last one.

    Raises:
        ValueError: another pattern.
    """
    numbers = filled_shares(shares)
    groups = [group for group, share in enumerate(numbers) if share > _ROUNDING]
    if pattern == "parallel":
        return [tuple(groups)] * n_layers
    counts = {group: math.floor(numbers[group] * n_layers + _ROUNDING) for group in groups[:-1]}
    counts[groups[-1]] = n_layers - sum(counts.values())
    order = groups[::-1] if pattern.endswith("_reversed") else groups
    if pattern in ("sequential", "sequential_reversed"):
        return [(group,) for group in order for _ in range(counts[group])]
    if pattern in ("alternating", "alternating_reversed"):
        return [(group,) for turn in range(max(counts.values())) for group in order if turn < counts[group]]
    expected = "sequential, alternating, parallel, sequential_reversed or alternating_reversed"
    raise ValueError(f"pattern={pattern}: expected {expected}")


def covered_places(where: Sequence[str], places: Sequence[str]) -> list[str]:
    """The places of attention in a network that a list such as `model.ortho.where` means.

    A network that has a decoder alone takes `encoder` for it: a model's file is for both kinds.
    """
    alone = "decoder" in places and "encoder" not in places
    return [place for place in places if place in where or (alone and place == "decoder" and "encoder" in where)]
