"""Observation of the attentions of a network during a forward pass."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from torch import nn

from attnlab.attention.base import Attention, Observation


@dataclass(frozen=True)
class Application:
    """One use of one attention in a forward pass."""

    attention: Attention
    seen: Observation


@contextmanager
def observed(network: nn.Module) -> Iterator[dict[str, Application]]:
    """Records every use of every attention of `network` inside the `with` block, by name, in the order of use.

    Names are module paths: `encoder.layers.0.attention`, `decoder.layers.1.cross`, and for the members of a
    `ParallelAttention` `encoder.layers.0.attention.attentions.1`. Where one attention is used again, as in shared
    layers, later uses are `encoder.layers.0.attention#2`, `...#3`. Incremental decoding is not recorded.

    Earlier observers are restored at the end, also after an exception.
    """
    applications: dict[str, Application] = {}
    uses: Counter[str] = Counter()

    def record(name: str, attention: Attention, seen: Observation) -> None:
        uses[name] += 1
        applications[name if uses[name] == 1 else f"{name}#{uses[name]}"] = Application(attention, seen)

    attentions = {name: module for name, module in network.named_modules() if isinstance(module, Attention)}
    before = {name: attention.observer for name, attention in attentions.items()}
    try:
        for name, attention in attentions.items():
            attention.observer = partial(record, name, attention)
        yield applications
    finally:
        for name, attention in attentions.items():
            attention.observer = before[name]
