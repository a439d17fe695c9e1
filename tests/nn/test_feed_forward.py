"""Feed-forward parts: initial values."""

import math

import pytest

from attnlab.config.schema import Backbone
from attnlab.nn.transformer_block import FeedForward


@pytest.mark.parametrize(("kind", "gain"), [("relu", math.sqrt(2)), ("gelu", 1.0), ("glu", 1.0)])
def test_feed_forward_initial_values(kind: str, gain: float) -> None:
    shape = Backbone(
        d_model=64,
        n_heads=1,
        n_layers=1,
        attention_dropout=0.0,
        embedding_dropout=0.0,
        positions="none",
        d_feed_forward=128,
        dropout=0.0,
        attention_output_dropout=0.0,
        norm_placement="post",
        layer_norm="layer_norm",
        feed_forward=kind,
        initialization="xavier",
    )
    part, bound = FeedForward(shape), math.sqrt(6 / (64 + 128))
    assert part.inner.weight.abs().max().item() == pytest.approx(gain * bound, rel=0.01)
    assert part.outer.weight.abs().max().item() == pytest.approx(bound, rel=0.01)
    assert (part.gate is not None) == (kind == "glu")
