"""Threshold relative attention: published outputs, thresholds, distances, use in a decoder."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from support.golden_outputs import assert_golden, golden, with_weights
from support.incremental_decoding import check_steps
from support.model_cases import apply, config_of, network_of
from support.reference_comparison import compare_with_reference
from support.tensors import draw, masks, shaken
from torch import Tensor

from attnlab.attention.threshold_relative import ThresholdRelativeAttention
from attnlab.config.job_config import check_config, compose_config
from attnlab.config.schema import LayerGroup

PATH = "attnlab.attention.threshold_relative.ThresholdRelativeAttention"
PUBLISHED_NAMES = {
    "toqueries": "q_proj",
    "tokeys": "k_proj",
    "tovalues": "v_proj",
    "delta_proj": "gate_proj",
    "c_out": "out_proj",
}


def make(**options) -> ThresholdRelativeAttention:
    torch.manual_seed(0)
    return shaken(ThresholdRelativeAttention(8, 2, **options).double())


def scored(scores: Tensor, gate: float, v: Tensor) -> Tensor:
    """The last query's output over keys whose scores are these, in one head of width 1."""
    attention = ThresholdRelativeAttention(1, 1).double()
    q = torch.tensor([[[[1.0, gate]]]], dtype=torch.float64)
    return attention.attend_last(q, scores[None, None, :, None], v, None, len(scores) - 1)[0, 0, 0]


def test_equals_the_notebook() -> None:
    """abhishekpanigrahi1996/MOSS, submission 96, TRA_FFL.ipynb, class TRA; ours by default: nothing in it differs."""
    record = golden("threshold_relative_causal")
    for name in [key for key in record if key.startswith("p_")]:
        module, kind = name.removeprefix("p_").rsplit("_", 1)
        record[f"{PUBLISHED_NAMES[module]}_{kind}"] = record[name]
    attention = with_weights(ThresholdRelativeAttention(record["x"].shape[2], int(record["heads"])), record)
    out, _ = attention(record["x"], causal=True)
    assert_golden(out, record)


def test_the_orthogonality_loss_equals_the_reference() -> None:
    compare_with_reference(make(orthogonality=True), "causal", 6)
    compare_with_reference(make(orthogonality=True), "causal", 6, (6, 2, 1, 0))


def test_removed_keys_count_for_nothing() -> None:
    """Neither for the weights nor for the distance: without them the rest gives the same."""
    scores, v = torch.tensor([0.7, -0.1, 1.2, 0.0, -3.0, 0.4]).double(), draw(1, 1, 6, 3)
    left = [0, 2, 5]
    out = scored(scores, -0.3, v)
    torch.testing.assert_close(out, scored(scores[left], -0.3, v[:, :, left]), rtol=1e-12, atol=0)
    gate = F.logsigmoid(torch.tensor(-0.3, dtype=torch.float64))
    expected = (scores[left] + torch.tensor([3, 2, 1]) * gate).softmax(0) @ v[0, 0, left]
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=0)


def test_a_query_that_nothing_survives_for_gives_the_output_bias() -> None:
    """The threshold is strict: a score of 0 does not survive, and zero vectors have no other."""
    attention, x = make(), draw(1, 4, 8)
    x[:, 2] = 0
    out, _ = attention(x, causal=True)
    torch.testing.assert_close(out[:, 2], attention.out_proj.bias[None], rtol=0, atol=1e-15)
    assert not scored(torch.tensor([-1.0, 0.0]).double(), 0.5, draw(1, 1, 2, 3)).any()


def test_gradients_reach_survivors_only() -> None:
    attention, x = make(), draw(1, 6, 8)
    q, (k, _) = attention.queries(x), attention.keys_values(x)
    survives = ((q[..., :-1] @ k.transpose(-1, -2)).tril() > 0).any(1)[0]
    jacobian = torch.autograd.functional.jacobian(lambda y: attention(y, causal=True)[0][0], x)
    reached = jacobian[:, :, 0].abs().amax((1, 3)) > 0
    # Of its own position a query needs no key: it makes the query and the gate.
    others = ~torch.eye(6).bool()
    assert torch.equal(reached[others], survives[others])
    assert 0 < survives[others].sum() < 15


def test_taps_see_scores_before_the_threshold() -> None:
    """So that they can bring a removed key back, and their gradient is 0 at those they leave removed."""
    attention, x, seen = make(), draw(1, 5, 8), []
    q, (k, _) = attention.queries(x), attention.keys_values(x)

    def score_hook(scores: Tensor) -> Tensor:
        seen.append(scores.detach().requires_grad_())
        return seen[-1]

    weights = attention.weights(q, k, None, True, score_hook)
    gradient = torch.autograd.grad(weights.square().sum(), seen[0])[0]
    assert (seen[0] < 0).any()
    assert not gradient[seen[0] <= 0].any()
    revived = attention.weights(q, k, None, True, torch.abs)
    assert (revived > 0).equal(torch.ones(5, 5).tril().bool().expand(1, 2, -1, -1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_counts_and_sums_in_float32(dtype: torch.dtype) -> None:
    """Distances above 256 are no bfloat16 numbers."""
    attention, x = make(), draw(1, 1000, 8).to(dtype)
    q, (k, v) = attention.double().queries(x.double()), attention.keys_values(x.double())
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    # A gate close to 1 forgets slowly enough for distant keys to matter.
    q[..., -1] = 8
    expected = make().attend(q.double(), k.double(), v.double(), None, True)
    with torch.autocast("cpu", dtype):
        actual = make().to(dtype).attend(q, k, v, None, True)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=8e-3, atol=1e-3)


def test_biases_are_the_notebooks() -> None:
    attention = ThresholdRelativeAttention(8, 2)
    with_bias = {name for name, module in attention.named_children() if module.bias is not None}
    assert with_bias == {"gate_proj", "out_proj"}


def test_dropout_acts_in_training_only() -> None:
    x = draw(2, 5, 8)
    attention, plain = make(dropout=0.5), make()(x, causal=True)[0]
    assert torch.equal(attention.eval()(x, causal=True)[0], plain)
    assert not torch.equal(attention.train()(x, causal=True)[0], plain)


@pytest.mark.parametrize("mode", ["bidirectional", "cross"])
def test_other_forms_are_refused(mode: str) -> None:
    with pytest.raises(NotImplementedError, match=f"ThresholdRelativeAttention has no {mode} form"):
        apply(make(), mode, draw(2, 5, 8), draw(2, 4, 8), masks([5, 4], 5) if mode == "bidirectional" else None)


@pytest.mark.parametrize("positions", ["none", "sinusoidal"])
@pytest.mark.parametrize("share_layers", [False, True])
def test_it_decodes_what_a_softmax_encoder_read(positions: str, share_layers: bool) -> None:
    """As self-attention of the decoder, with softmax in the encoder and across: decoding equals teacher forcing."""
    group = LayerGroup(share=1.0, attention={"_target_": PATH})
    model = replace(config_of("vanilla").model, decoder=[group])
    network = network_of(model, "scan", positions=positions, share_layers=share_layers, n_layers=3)
    kinds = {type(layer.attention).__name__ for layer in network.decoder.layers}
    assert kinds == {"ThresholdRelativeAttention"}
    check_steps(network)


def test_the_command_line_can_put_it_into_a_decoder() -> None:
    """Whole: the decoder of a model yaml follows its encoder, so no slot can be set alone."""
    group = f"model.decoder=[{{share: 1.0, attention: {{_target_: {PATH}}}}}]"
    assert not check_config(compose_config(["task=scan", "model=vanilla", group]))


@pytest.mark.parametrize(("task", "slots"), [("scan", ["encoder", "cross"]), ("sort_of_clevr", ["encoder"])])
def test_a_task_it_cannot_do_is_refused_by_slot(task: str, slots: list[str]) -> None:
    messages = check_config(compose_config([f"task={task}", "model=threshold_relative"]))
    assert [problem.split("=")[0].split(".")[1] for problem in messages] == slots
    assert all("models that can: " in problem for problem in messages)
