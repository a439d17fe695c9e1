"""Rotary positions: the formula of Su et al. 2021, scores by distance, decoding, networks of every kind."""

import pytest
import torch
from reference.positions.rotary import rotated
from support.model_cases import SPECS, backbone_of, config_of, network_of
from support.random_batches import drawn_batch
from support.reference_comparison import compare_with_reference
from support.tensors import shaken

from attnlab.attention.linear import LinearAttention
from attnlab.attention.positions.rotary import RotaryPositions, Rotation
from attnlab.attention.softmax import SoftmaxAttention
from attnlab.config.job_config import check_config, compose_config
from attnlab.config.schema import Normalization
from attnlab.tasks.kinds.base import build_network, kind_of


def test_scores_depend_on_distance_alone() -> None:
    rotation, q, k = Rotation(), torch.randn(6, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    queries, keys = (rotation.queries(x.expand(1, 1, 9, -1)) for x in (q, k))
    scores = queries @ keys.transpose(-1, -2)
    for i in range(1, 9):
        torch.testing.assert_close(scores[0, 0, i, 1:], scores[0, 0, i - 1, :-1], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(rotation.keys(k.expand(1, 1, 2, -1), first=7), keys[:, :, 7:], rtol=0, atol=1e-14)


@pytest.mark.parametrize("width", [2, 5, 8])
def test_rows_are_turned_as_in_the_paper(width: int) -> None:
    """Lengths stay, and of an odd width the last column."""
    x = torch.randn(1, 1, 40, width, dtype=torch.float64)
    result = Rotation().queries(x)
    for position in (0, 1, 39):
        torch.testing.assert_close(result[0, 0, position], rotated(x[0, 0, position], position), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(result.norm(dim=-1), x.norm(dim=-1))


def test_half_precision_keeps_positions() -> None:
    """Positions above 256 are no bfloat16 numbers."""
    x = torch.randn(1, 1, 1000, 8)
    torch.testing.assert_close(Rotation().queries(x.bfloat16()).float(), Rotation().queries(x), rtol=0, atol=0.05)


@pytest.mark.parametrize("denominator", [True, False])
@pytest.mark.parametrize("kind", [SoftmaxAttention, LinearAttention])
def test_attention_equals_the_reference(kind: type, denominator: bool) -> None:
    options = {} if kind is SoftmaxAttention else {"normalization": Normalization(kind="l2", denominator=denominator)}
    attention = shaken(kind(8, 2, positions=RotaryPositions(), **options).double())
    for mode in ("bidirectional", "causal"):
        compare_with_reference(attention, mode, 6, (6, 2, 1, 0))


@pytest.mark.parametrize("task", SPECS)
@pytest.mark.parametrize("model", ["vanilla", "linear_l2_ortho"])
def test_networks_of_every_kind_have_it_in_self_attention(task: str, model: str) -> None:
    """They see the order of their inputs, which without positions makes no difference to an encoder."""
    network, batch = network_of(model, task, positions="rotary"), drawn_batch(task)
    assert kind_of(SPECS[task]).loss(network, batch)[0].isfinite()
    for name, module in network.named_modules():
        if hasattr(module, "q_proj"):
            assert isinstance(module.positions, Rotation) != name.endswith("cross"), name
    assert network.state_dict().keys() == network_of(model, task, positions="none").state_dict().keys()


def test_a_head_of_one_column_is_refused() -> None:
    backbone = backbone_of("vanilla", "scan", positions="rotary", n_heads=8)
    with pytest.raises(ValueError, match=r"rotary.*one column.*n_heads=8"):
        build_network(backbone, config_of("vanilla").model, SPECS["scan"])


@pytest.mark.parametrize("model", ["cosformer", "transnormer_t1", "kernelized"])
def test_other_attentions_are_refused_with_the_models_that_can(model: str) -> None:
    (problem,) = check_config(compose_config(["task=scan", f"model={model}", "backbone.positions=rotary"]))
    assert "backbone.positions=rotary: not possible with" in str(problem) and "vanilla" in str(problem)


def test_a_wrong_name_is_refused_with_the_nearest() -> None:
    (problem,) = check_config(compose_config(["task=scan", "model=vanilla", "backbone.positions=rotory"]))
    assert "rotory: expected one of alibi, learned, none, relative, rotary, sinusoidal, t5; nearest: rotary" in str(
        problem
    )
