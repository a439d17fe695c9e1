"""Distribution of a model's groups of attention over the layers and slots of its network."""

import math
from collections.abc import Sequence
from typing import TypeVar

Slot = TypeVar("Slot", bound=str)

# 0.1 * 30 is 2.9999999999999996 in floating point and means 3.
_ROUNDING = 1e-9


def filled_shares(shares: Sequence[float | None]) -> list[float]:
    """Shares of the depth as numbers; null stands for the rest that the other groups leave."""
    rest = round(1 - sum(share for share in shares if share is not None), 9)
    return [rest if share is None else share for share in shares]


def layer_plan(shares: Sequence[float | None], pattern: str, n_layers: int) -> list[tuple[int, ...]]:
    """For each layer, from first to last, the numbers of the groups whose attention it holds.

    sequential:  each group but the last gets floor(share * n_layers) layers, the last one the rest.
    alternating: the same counts, in turn; when one group is used up the others go on.
    parallel:    every layer holds all groups.
    sequential_reversed, alternating_reversed: the same counts, the last group first.

    A group of share 0 has no layer and does not count as the last one.

    Raises:
        ValueError: unknown pattern.
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


def covered_slots(where: Sequence[str], slots: Sequence[Slot]) -> list[Slot]:
    """Those slots of a network (encoder, decoder, cross) that a list such as `model.ortho.where` covers.

    A model's yaml serves all kinds of networks: in one with a decoder only, `encoder` means the decoder.
    """
    decoder_only = "decoder" in slots and "encoder" not in slots
    return [slot for slot in slots if slot in where or (decoder_only and slot == "decoder" and "encoder" in where)]
