"""Positions that add a bias to scores, alibi and t5: published outputs, slopes, buckets, lengths beyond training.

Golden files: transformers 5.24.0 in float64 (their constants of float32 too), with weights from N(0, 0.25).
"""

import pytest
import torch
from reference.positions.alibi import slopes as slow_slopes
from reference.positions.t5 import bucket
from support.golden_outputs import assert_golden, golden, with_weights
from support.incremental_decoding import check_steps
from support.model_cases import SPECS, network_of
from support.random_batches import drawn_batch
from support.reference_comparison import compare_with_reference
from support.tensors import draw, shaken
from torch import Tensor

from attnlab.attention.compositional import CompositionalAttention
from attnlab.attention.positions.alibi import AlibiPositions, LinearBiases, slopes
from attnlab.attention.positions.base import Positions
from attnlab.attention.positions.rotary import RotaryPositions
from attnlab.attention.positions.t5 import BucketBiases, T5Positions
from attnlab.attention.softmax import SoftmaxAttention
from attnlab.config.job_config import check_config, compose_config
from attnlab.nn.network_parts import count_parameters
from attnlab.tasks.kinds.base import kind_of

BIASES = {"alibi": AlibiPositions, "t5": T5Positions}


def with_golden_weights(name: str, positions: Positions) -> tuple[SoftmaxAttention, dict[str, Tensor]]:
    record = golden(name)
    bias = "q_proj_bias" in record
    attention = SoftmaxAttention(record["x"].shape[2], int(record["heads"]), bias=bias, positions=positions)
    return with_weights(attention, record), record


@pytest.mark.parametrize("form", ["bidirectional", "causal"])
def test_t5_equals_the_transformers_library(form: str) -> None:
    """T5Attention, encoder and decoder; their query weights times sqrt(D), since they do not scale products."""
    attention, record = with_golden_weights(f"positions_t5_{form}", T5Positions())
    attention.positions.table.data = record["table"]
    q, causal = draw(1, 2, 40, 4), form == "causal"
    added = attention.positions.added(q, 40, causal=causal)
    seen = torch.ones(40, 40, dtype=torch.bool).tril() if causal else torch.ones(40, 40, dtype=torch.bool)
    assert torch.equal(added[..., seen], record["bias"][..., seen])
    assert torch.equal(attention.positions.buckets(torch.arange(-300, 301), causal), record["buckets"].long())
    assert_golden(attention(record["x"], causal=causal)[0], record)


def test_alibi_equals_the_transformers_library() -> None:
    """BloomAttention with 6 heads, causal, and build_mpt_alibi_tensor, which has the biases of the last query."""
    attention, record = with_golden_weights("positions_alibi_causal", AlibiPositions())
    added = attention.positions.added(draw(1, 6, 40, 2), 40)
    torch.testing.assert_close(added[0, :, -1:], record["mpt"], rtol=1e-12, atol=0)
    assert_golden(attention(record["x"], causal=True)[0], record)


def test_rotary_equals_the_transformers_library() -> None:
    """LlamaAttention, causal."""
    attention, record = with_golden_weights("positions_rotary_causal", RotaryPositions())
    assert_golden(attention(record["x"], causal=True)[0], record)


@pytest.mark.parametrize("kind", [SoftmaxAttention, CompositionalAttention])
@pytest.mark.parametrize("name", BIASES)
def test_attention_equals_the_reference_with_padding(name: str, kind: type) -> None:
    attention = shaken(kind(8, 2, positions=BIASES[name]()).double())
    for mode in ("bidirectional", "causal"):
        compare_with_reference(attention, mode, 6, (6, 2, 1, 0))


def test_slopes_of_any_number_of_heads() -> None:
    assert slopes(8, torch.float64).tolist() == [2.0**-h for h in range(1, 9)]
    for n_heads in range(1, 21):
        expected = torch.tensor(slow_slopes(n_heads), dtype=torch.float64)
        torch.testing.assert_close(slopes(n_heads, torch.float64), expected, rtol=1e-14, atol=0)


def test_buckets_equal_the_reference_at_every_distance() -> None:
    """Integers: where a range begins, rounded logarithms would differ between devices."""
    positions, distances = BucketBiases(8, 2), torch.arange(-2000, 2001)
    for causal in (True, False):
        expected = [bucket(distance, causal) for distance in distances.tolist()]
        assert positions.buckets(distances, causal).tolist() == expected


@pytest.mark.parametrize("name", BIASES)
def test_half_precision_keeps_distances(name: str) -> None:
    """Distances above 256 are no bfloat16 numbers."""
    positions = BIASES[name]().in_scores(8, 2, "torch")
    q = torch.randn(1, 2, 1, 4)
    expected = positions.added(q, 1000)
    actual = positions.to(torch.bfloat16).added(q.bfloat16(), 1000)
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual.float(), expected, rtol=2**-7, atol=0)


@pytest.mark.parametrize("name", BIASES)
def test_longer_sequences_than_in_training(name: str) -> None:
    """A network for 100 positions reads 400; the biases of the first 100 are the same."""
    network = network_of("vanilla", "flip_flop", positions=name)
    x, mask = torch.randint(7, (1, 400)), torch.ones(1, 400, dtype=torch.bool)
    long, short = network(x, mask)[0], network(x[:, :100], mask[:, :100])[0]
    assert long.isfinite().all()
    torch.testing.assert_close(long[:, :100], short, rtol=1e-9, atol=1e-9)


def test_t5_biases_of_far_keys_are_those_of_the_last_bucket() -> None:
    positions = BucketBiases(8, 2)
    added = positions.added(torch.zeros(1, 2, 1, 4), 5000, first=4999, causal=True)
    assert torch.equal(added[0, :, 0, :4800], positions.table[-1][:, None].expand(-1, 4800))


@pytest.mark.parametrize("name", BIASES)
def test_decoding_step_by_step_equals_the_forward(name: str) -> None:
    check_steps(network_of("vanilla", "scan", positions=name))


@pytest.mark.parametrize("task", SPECS)
@pytest.mark.parametrize("name", BIASES)
def test_networks_of_every_kind_have_them_in_self_attention(task: str, name: str) -> None:
    network, batch = network_of("vanilla", task, positions=name), drawn_batch(task)
    assert kind_of(SPECS[task]).loss(network, batch)[0].isfinite()
    for path, module in network.named_modules():
        if hasattr(module, "q_proj"):
            assert isinstance(module.positions, LinearBiases | BucketBiases) != path.endswith("cross"), path


def test_t5_layers_of_a_stack_share_a_table() -> None:
    """Encoder and decoder have one each, as in T5, and it has gradients from all layers."""
    plain, network = (network_of("vanilla", "scan", n_layers=3, positions=name) for name in ("none", "t5"))
    assert count_parameters(network) == count_parameters(plain) + 2 * 32 * 2
    tables = [[id(layer.attention.positions) for layer in stack.layers] for stack in (network.encoder, network.decoder)]
    assert [len(set(stack)) for stack in tables] == [1, 1] and tables[0][0] != tables[1][0]
    again = network_of("vanilla", "scan", seed=1, n_layers=3, positions="t5")
    again.load_state_dict(network.state_dict())
    assert again.encoder.layers[0].attention.positions is again.encoder.layers[2].attention.positions


@pytest.mark.parametrize("name", BIASES)
def test_feature_maps_are_refused_with_the_models_that_can(name: str) -> None:
    (problem,) = check_config(compose_config(["task=scan", "model=linear", f"backbone.positions={name}"]))
    assert f"backbone.positions={name}: not possible with LinearAttention" in str(problem)
    assert "vanilla" in str(problem) and "compositional" in str(problem)
    assert not check_config(compose_config(["task=scan", "model=vanilla", f"model.positions={name}"]))


def test_a_wrong_name_is_refused_with_the_nearest() -> None:
    (problem,) = check_config(compose_config(["task=scan", "model=vanilla", "backbone.positions=alibbi"]))
    assert "nearest: alibi" in str(problem)
