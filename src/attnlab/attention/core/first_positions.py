"""Self-attention of the first positions of a sequence alone, for a last layer of which nothing else is read."""

from torch import nn


def computed_alone(attention: nn.Module) -> bool:
    """Whether bidirectional self-attention of first positions may be computed as cross-attention over the sequence.

    Only for a class that declares `cross_equals_self`, and not for an attention that is observed: diagnostics show all
    positions.
    """
    return getattr(type(attention), "cross_equals_self", False) and attention.observer is None
