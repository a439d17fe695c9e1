"""Golden outputs of published implementations (tests/golden; what ran is said in each test)."""

from support.golden_outputs import assert_golden, golden
from support.tensors import masks

from attnlab.attention.linear import LinearAttention


def test_linear_equals_fast_transformers() -> None:
    """idiap/fast-transformers, LinearAttention: queries not scaled, eps 1e-6; keys beyond `key_lengths` are padding."""
    given = golden("linear_elu_padded_keys")
    _, heads, _, width = given["q"].shape
    attention = LinearAttention(heads * width, heads, scale_queries=False, eps=float(given["eps"])).double()
    mask = masks(given["key_lengths"].tolist(), given["k"].shape[2])
    out = attention.attend(given["q"], given["k"], given["v"], mask, False)
    assert_golden(out, given)
