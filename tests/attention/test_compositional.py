"""Compositional attention: switches, published outputs, and the dependencies of its two stages."""

from itertools import product

import pytest
import torch
from support.golden_outputs import assert_golden, golden, with_weights
from support.model_cases import apply
from support.reference_comparison import compare_with_reference
from support.tensors import draw, gradients, masks, shaken

from attnlab.attention.compositional import CompositionalAttention
from attnlab.attention.core.orthogonality_loss import orthogonality_loss
from attnlab.attention.softmax import SoftmaxAttention

MODES = ("bidirectional", "causal", "cross")
PUBLISHED_NAMES = {
    "query_net": "q_proj",
    "key_net": "k_proj",
    "value_net": "v_proj",
    "multi_head_merge": "out_proj",
    "query_value_net": "retrieval_query_proj",
    "key_value_net": "retrieval_key_proj",
    "score_network": "score_proj",
}


def make(**options) -> CompositionalAttention:
    torch.manual_seed(0)
    return shaken(CompositionalAttention(8, 2, **options).double())


@pytest.mark.parametrize("scorer", ["dot", "mlp"])
def test_equals_the_scan_version(scorer: str) -> None:
    """sarthmit/Compositional-Attention, SCAN, 3 searches and 3 retrievals; keys beyond `key_lengths` are padding.

    Ours by default: nothing in it differs.
    """
    record = golden(f"compositional_{scorer}_padded_keys")
    for name in [key for key in record if key.startswith("p_")]:
        module, kind = name.removeprefix("p_").rsplit("_", 1)
        record[f"{PUBLISHED_NAMES[module]}_{kind}"] = record[name]
    attention = CompositionalAttention(
        record["x"].shape[2],
        int(record["heads"]),
        bias=False,
        retrievals=int(record["retrievals"]),
        scorer=scorer,
        retrieval_width=int(record["qk_dim"]),
    )
    mask = masks(record["key_lengths"].tolist(), record["memory"].shape[1])
    out, _ = with_weights(attention, record)(record["x"], record["memory"], mask)
    assert_golden(out, record)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("scorer", "retrievals"), list(product(("dot", "mlp"), (1, 3))))
def test_every_scorer_equals_the_reference(scorer: str, retrievals: int, mode: str) -> None:
    attention = make(scorer=scorer, retrievals=retrievals, retrieval_width=5, bias=False, orthogonality=True)
    compare_with_reference(attention, mode, 5)
    compare_with_reference(attention, mode, 6, (6, 2, 1, 0))


def test_one_retrieval_is_softmax_attention_with_shared_values() -> None:
    """Its weight is 1 for any result of the retrieval stage."""
    attention, softmax, x = make(retrievals=1), SoftmaxAttention(8, 2).double(), draw(2, 5, 8)
    for name in ("q_proj", "k_proj", "out_proj"):
        getattr(softmax, name).load_state_dict(getattr(attention, name).state_dict())
    shared = {kind: torch.cat((value, value)) for kind, value in attention.v_proj.state_dict().items()}
    softmax.v_proj.load_state_dict(shared)
    torch.testing.assert_close(attention(x)[0], softmax(x)[0], rtol=1e-12, atol=1e-12)


def test_the_linear_scorer_does_not_see_the_query() -> None:
    """Its part for the query is the same for every retrieval; so is the bias of the dot product's keys."""
    x, other = draw(2, 5, 8), draw(2, 5, 8)
    results = draw(2, 2, 5, 2, 4)
    mlp, dot = make(scorer="mlp"), make(scorer="dot")
    torch.testing.assert_close(mlp.retrieval_weights(results, x), mlp.retrieval_weights(results, other))
    assert not torch.allclose(dot.retrieval_weights(results, x), dot.retrieval_weights(results, other))
    assert gradients(dot(x)[0].square().sum(), dot)["retrieval_key_proj.bias"].abs().max() < 1e-14


def test_retrieval_weights_add_up_to_1() -> None:
    for scorer in ("dot", "mlp"):
        weights = make(scorer=scorer, retrievals=3).retrieval_weights(draw(2, 2, 5, 3, 4), draw(2, 5, 8))
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5).double())


def test_the_orthogonality_loss_compares_the_values_of_each_retrieval() -> None:
    attention, x = make(retrievals=3, orthogonality=True), draw(2, 5, 8)
    values = attention.v_proj(x).unflatten(-1, (3, 4)).transpose(1, 2)
    torch.testing.assert_close(attention(x)[1], orthogonality_loss(values), rtol=1e-12, atol=0)


def test_values_are_cached_once_for_all_searches() -> None:
    attention = CompositionalAttention(8, 4, retrievals=3)
    assert attention.state_size(10) == 10 * (8 + 3 * 2)
    state = attention.init_state(2, torch.randn(2, 10, 8), None)
    assert state.v.shape == (2, 1, 10, 6)


def test_the_retrieval_stage_starts_as_published() -> None:
    """Its biases are drawn instead of 0, and exist also without biases of the other projections."""
    attention = CompositionalAttention(8, 2, bias=False, initialization="xavier")
    assert attention.v_proj.bias is None
    assert attention.retrieval_query_proj.bias.any()
    assert attention.retrieval_key_proj.bias.any()


def test_dropout_acts_in_training_only() -> None:
    x = draw(2, 5, 8)
    attention, plain = make(dropout=0.5), make()(x)[0]
    assert torch.equal(attention.eval()(x)[0], plain)
    assert not torch.equal(attention.train()(x)[0], plain)


def test_a_query_without_keys_gives_the_output_bias() -> None:
    attention = make()
    out, _ = apply(attention, "bidirectional", draw(2, 4, 8), None, masks([4, 0], 4))
    torch.testing.assert_close(out[1], attention.out_proj.bias.expand(4, -1), rtol=0, atol=1e-15)
