"""InLine attention: published outputs, switches, and what the subtraction of the mean gives."""

import pytest
import torch
from support.golden_outputs import assert_golden, golden, with_weights
from support.reference_comparison import compare_with_reference
from support.tensors import draw, shaken

from attnlab.attention.inline import InLine, LocalInLine
from attnlab.config.schema import Normalization

FORMS = ("bidirectional", "causal", "cross")


def make(**options) -> InLine:
    torch.manual_seed(0)
    return shaken(InLine(8, 2, **options).double())


def test_equals_the_published_code() -> None:
    """LeapLabTHU/InLine, commit e463a6f, models/inline_pvt.py, with zeros in its convolution."""
    record = golden("inline_bidirectional")
    attention = with_weights(InLine(record["x"].shape[2], int(record["heads"])), record)
    assert_golden(attention(record["x"])[0], record)


def test_the_convolution_equals_the_published_code() -> None:
    """The same module with its weights, on an image of one row: of 3 x 3 taps the middle row has an effect."""
    record = golden("inline_bidirectional")
    attention = with_weights(LocalInLine(record["x"].shape[2], int(record["heads"])), record)
    attention.first.load_state_dict({key: record[f"residual_0_{key}"] for key in ("weight", "bias")})
    middle = {key: record[f"residual_2_{key}"].unflatten(0, (-1, 3, 3))[:, 1] for key in ("weight", "bias")}
    attention.second.load_state_dict({key: value.flatten(0, 1) for key, value in middle.items()})
    assert_golden(attention(record["x"])[0], record | {"out": record["out_local"]})


@pytest.mark.parametrize("placement", ["after_feature_map", "before_feature_map"])
@pytest.mark.parametrize("kind", ["l2", "rms"])
def test_normalized_scores_equal_the_reference(kind: str, placement: str) -> None:
    """A denominator in the model's yaml changes nothing."""
    attention = make(feature_map="relu", normalization=Normalization(kind=kind, placement=placement), chunk_size=4)
    for form in FORMS:
        compare_with_reference(attention, form, 9, (9, 4, 0))


def test_longer_queries_have_other_weights() -> None:
    """Weights sum to 1; twice the query is twice the distance from equal weights."""
    attention, (q, k) = make(), (draw(2, 2, 5, 4), draw(2, 2, 5, 4))
    once, twice = (attention.weights(factor * q, k, None, False) for factor in (1, 2))
    torch.testing.assert_close(once.sum(-1), torch.ones(2, 2, 5, dtype=torch.float64))
    torch.testing.assert_close(twice - 1 / 5, 2 * (once - 1 / 5))
