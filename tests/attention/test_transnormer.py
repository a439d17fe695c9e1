"""TransNormer: switches, golden files, separate blocks, linear relative positions, ablations."""

import shlex
from itertools import product

import pytest
import torch
from support.compile_networks import arguments
from support.golden_outputs import assert_golden, golden, with_weights
from support.model_cases import SPECS, config_of
from support.reference_comparison import compare_with_reference
from support.small_runs import checked, jobs_of
from support.tensors import draw, masks, shaken
from torch import Tensor

from attnlab.attention.core.score_position import Lrpe
from attnlab.attention.transnormer import DiagAttention, NormAttention, simple_rms_norm
from attnlab.config.job_config import compose_config
from attnlab.config.problem import ConfigError
from attnlab.config.schema import Normalization
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import check_command
from attnlab.nn.transformer_block import ParallelAttention
from attnlab.tasks.kinds.base import build_network

MODES = ("bidirectional", "causal", "cross")
LRPE = ("none", "rotary", "householder_rotary")
SMALL = ["backbone.d_model=8", "backbone.n_heads=2", "backbone.n_layers=4", "backbone.d_feed_forward=12"]


def norm_attention(**options) -> NormAttention:
    torch.manual_seed(0)
    return shaken(NormAttention(8, 2, **options).double())


def diag_attention(**options) -> DiagAttention:
    torch.manual_seed(0)
    return shaken(DiagAttention(8, 2, **options).double())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "options",
    [
        *({"feature_map": name, "norm": norm} for name, norm in product(("elu", "relu"), ("rms_norm", "layer_norm"))),
        *({"lrpe": kind} for kind in LRPE[1:]),
        {"bias": False, "orthogonality": True, "chunk_size": 4, "lrpe": "householder_rotary"},
    ],
)
def test_norm_attention_equals_the_reference(options: dict, mode: str) -> None:
    compare_with_reference(norm_attention(**options), mode, 6)
    compare_with_reference(norm_attention(**options), mode, 9, (9, 4, 1, 0))


@pytest.mark.parametrize(
    ("kind", "placement"), list(product(("l1", "l2", "rms"), ("after_feature_map", "before_feature_map")))
)
def test_every_normalization_equals_the_reference(kind: str, placement: str) -> None:
    """NormAttention has no denominator, whatever the normalisation of the model says."""
    for mode, denominator in product(MODES, (True, False)):
        normalization = Normalization(kind=kind, placement=placement, denominator=denominator)
        attention = norm_attention(normalization=normalization)
        assert not attention.denominator
        compare_with_reference(attention, mode, 5, (5, 2, 0))


@pytest.mark.parametrize("lrpe", LRPE)
@pytest.mark.parametrize("scores", ["softmax", "rela"])
def test_diag_attention_equals_the_reference(scores: str, lrpe: str) -> None:
    """With blocks that divide the length and that do not, longer and shorter than the sequence."""
    for block_size, mode in product((1, 3, 4, 64), MODES[:2]):
        options = {"scores": scores, "block_size": block_size, "lrpe": lrpe, "orthogonality": True, "bias": False}
        compare_with_reference(diag_attention(**options), mode, 8)
        compare_with_reference(diag_attention(**options), mode, 7, (7, 6, 3, 1, 0))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature_map", ["elu", "one_plus_elu"])
def test_norm_attention_equals_the_published_one(feature_map: str, causal: bool) -> None:
    """OpenNLPLab/lra, NormLinearAttention, with the simple RMS norm of its language-model code, without LRPE."""
    record = golden(f"transnormer_norm_attention_{feature_map}_{'causal' if causal else 'bidirectional'}")
    attention = with_weights(NormAttention(12, int(record["heads"]), feature_map=feature_map, chunk_size=3), record)
    assert_golden(attention(record["x"], causal=causal)[0], record)


@pytest.mark.parametrize("scores", ["softmax", "rela"])
def test_diag_attention_equals_the_published_one(scores: str) -> None:
    """OpenNLPLab/lra, NormLocalAttention, of whole blocks: the published code does not mask the last one's padding."""
    record = golden(f"transnormer_diag_attention_{scores}_bidirectional")
    options = {"scores": scores, "block_size": int(record["block_size"])}
    attention = with_weights(DiagAttention(12, int(record["heads"]), **options), record)
    assert_golden(attention(record["x"])[0], record)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scores", ["softmax", "rela"])
def test_no_block_sees_another(scores: str, causal: bool) -> None:
    """Each block of 4 of 10 positions gives what it gives alone, and no gradient goes from one to another."""
    attention, x = diag_attention(scores=scores, block_size=4, lrpe="rotary"), draw(2, 10, 8)
    out, _ = attention(x, causal=causal)
    jacobian = torch.autograd.functional.jacobian(lambda y: attention(y, causal=causal)[0].sum((0, 2)), x)
    block = torch.arange(10) // 4
    assert not jacobian.abs().sum((1, 3))[block[:, None] != block].any()
    for first in (0, 4, 8):
        alone, _ = attention(x[:, first : first + 4], causal=causal)
        torch.testing.assert_close(out[:, first : first + 4], alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block_size", [1, 4, 64])
@pytest.mark.parametrize("scores", ["softmax", "rela"])
@pytest.mark.parametrize("lrpe", LRPE)
def test_steps_go_from_block_to_block(lrpe: str, scores: str, block_size: int) -> None:
    """The state grows to one block, and begins anew after it."""
    attention, x = diag_attention(scores=scores, block_size=block_size, lrpe=lrpe), draw(2, 10, 8)
    expected, _ = attention(x, causal=True)
    state, sizes = attention.init_state(2), []
    for position in range(10):
        out, state = attention.step(x[:, position : position + 1], state)
        torch.testing.assert_close(out[:, 0], expected[:, position], rtol=1e-11, atol=1e-11)
        sizes.append(state.k.shape[2])
        assert attention.state_size(position + 1) == (state.k.numel() + state.v.numel()) / 2
    assert attention.state_size(0) == 0
    assert sizes == [position % block_size + 1 for position in range(10)]


@pytest.mark.parametrize("lrpe", LRPE[1:])
def test_norm_attentions_steps_carry_positions(lrpe: str) -> None:
    attention, x, memory = norm_attention(lrpe=lrpe, feature_map="elu"), draw(2, 7, 8), draw(2, 5, 8)
    for read, state in ((None, attention.init_state(2)), (memory, attention.init_state(2, memory))):
        expected, _ = attention(x, read, causal=read is None)
        for position in range(7):
            out, state = attention.step(x[:, position : position + 1], state)
            torch.testing.assert_close(out[:, 0], expected[:, position], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("width", [2, 5, 6])
@pytest.mark.parametrize("kind", LRPE[1:])
def test_lrpe_scores_depend_on_distance_alone(kind: str, width: int) -> None:
    """At distance 0 a score is that without positions; with a mirror of length 1, which noise has changed."""
    lrpe = shaken(Lrpe(kind, width)).double()
    lrpe.mirror = None if lrpe.mirror is None else lrpe.mirror / lrpe.mirror.norm()
    q, k, positions = draw(1, 1, 1, width), draw(1, 1, 1, width), torch.arange(20, 26)
    turned_q, turned_k = (lrpe(x.expand(-1, -1, 6, -1), positions) for x in (q, k))
    scores = (turned_q @ turned_k.transpose(-1, -2))[0, 0]
    for distance in range(-5, 6):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-11, atol=1e-11)
    assert scores.diagonal(1)[0] != scores.diagonal(2)[0]
    torch.testing.assert_close(scores.diagonal(), (q @ k.transpose(-1, -2)).flatten().expand(6), rtol=1e-11, atol=1e-11)


def test_lrpe_starts_at_the_published_angles_and_learns_only_those_of_householder_rotary() -> None:
    assert not list(Lrpe("rotary", 8).parameters())
    lrpe = Lrpe("householder_rotary", 8)
    assert [name for name, _ in lrpe.named_parameters()] == ["angles"]
    assert lrpe.angles.tolist() == pytest.approx([1, 0.1, 0.01, 0.001], rel=1e-6)
    assert lrpe.mirror.norm().item() == pytest.approx(1)
    with pytest.raises(ValueError, match="lrpe=rotary with a head width of 1"):
        Lrpe("rotary", 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_lrpe_keeps_distances_in_half_precision(dtype: torch.dtype) -> None:
    """Positions above 256 are no bfloat16 numbers; turning by a rounded one would be noise."""
    lrpe, x, positions = Lrpe("rotary", 8), torch.randn(1, 1, 4, 8).to(dtype), torch.arange(1000, 1004)
    result = lrpe(x, positions)
    assert result.dtype == dtype
    torch.testing.assert_close(result.float(), lrpe(x.float(), positions), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("autocast", [False, True])
def test_the_norm_bounds_what_overflows_float16(autocast: bool, causal: bool) -> None:
    """Undivided sums of 2,000 keys are beyond 65,504; what comes out equals the result in float64 but for rounding."""
    attention, x = norm_attention(), 30 * torch.randn(1, 2000, 8)
    expected, _ = attention(x.half().double(), causal=causal)
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        actual, _ = norm_attention().half()(x.half(), causal=causal)
    assert actual.dtype == torch.float16
    torch.testing.assert_close(actual.double(), expected, rtol=0.05, atol=0.05)


def test_the_simple_norm_is_finite_at_any_size() -> None:
    """Rows whose squares would overflow or vanish, and rows of zeros, of which the slope is 1 / eps."""
    x = torch.tensor([[3e38, -1e38], [1e30, 1e30], [1e-30, 0.0], [0.0, 0.0]], requires_grad=True)
    y = simple_rms_norm(x)
    y.sum().backward()
    assert x.grad.isfinite().all()
    torch.testing.assert_close(y[1].detach(), torch.ones(2))
    torch.testing.assert_close(y[2:].detach(), x[2:].detach() / 1e-8)
    torch.testing.assert_close(x.grad[3], torch.full((2,), 1e8))
    assert torch.autograd.gradcheck(simple_rms_norm, draw(3, 4).requires_grad_())


def test_weights_can_be_differentiated_by_scores() -> None:
    """Through `score_hook`; a weight does not depend on scores of other blocks."""
    q, k, mask = draw(1, 2, 7, 4), draw(1, 2, 7, 4), masks([6], 7)
    block = torch.arange(7) // 4
    for scores in ("softmax", "rela"):
        taps: list[Tensor] = []
        attention = diag_attention(scores=scores, block_size=4)
        weights = attention.weights(q, k, mask, False, lambda s, taps=taps: taps.append(s.requires_grad_()) or s)
        (gradient,) = torch.autograd.grad(weights.square().sum(), taps[0])
        assert gradient.any()
        assert not gradient[..., block[:, None] != block].any()
        assert not gradient[..., 6].any()


@pytest.mark.parametrize("scores", ["softmax", "rela"])
def test_dropout_acts_in_training_only(scores: str) -> None:
    x, attention = draw(2, 5, 8), diag_attention(scores=scores, dropout=0.5, block_size=3)
    plain, _ = diag_attention(scores=scores, block_size=3)(x)
    assert torch.equal(attention.eval()(x)[0], plain)
    assert not torch.equal(attention.train()(x)[0], plain)


def ablations() -> list[str]:
    """The commands in the comment of conf/model/transnormer_t2.yaml."""
    lines = (CONF / "model" / "transnormer_t2.yaml").read_text().splitlines()
    text = "\n".join(line.removeprefix("#   ") for line in lines if line.startswith("#   "))
    return text.replace("\\\n", "").splitlines()


@pytest.mark.parametrize(("task", "t"), [("scan", "t2"), ("sort_of_clevr", "t1")])
@pytest.mark.parametrize("command", ablations())
def test_the_papers_ablations_are_configurations(command: str, task: str, t: str) -> None:
    """Each command passes the check, is not the plain model, and its network runs both ways."""
    if t == "t1":
        command = command.replace("transnormer_t2", "transnormer_t1")
    argv = [f"task={task}", *shlex.split(command), *SMALL]
    config = checked(jobs_of(argv)[0])
    # a model of a paper's folder is its own ablation
    plain = next((word.removeprefix("model=") for word in argv if word.startswith("model=")), "")
    assert "/" in plain or config.model != config_of(config.model.name, task).model
    network = build_network(config.backbone, config.model, SPECS[task])
    logits, _ = network(*arguments(task))
    logits.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.encoder.parameters())


def layers_of(*words: str) -> list[str]:
    """D, N or both for each of four encoder layers, with the block size of those that have one."""
    job = checked(compose_config(["task=scan", "model=transnormer_t1", "backbone.n_layers=4", *words]))
    network = build_network(job.backbone, job.model, SPECS["scan"])

    def named(attention: torch.nn.Module) -> str:
        if isinstance(attention, ParallelAttention):
            return "+".join(named(part) for part in attention.attentions)
        return f"D{attention.block_size}" if isinstance(attention, DiagAttention) else "N"

    assert all(isinstance(layer.cross, NormAttention) for layer in network.decoder.layers)
    for stack in (network.encoder, network.decoder):
        collected = [named(layer.attention) for layer in stack.layers]
    assert collected == [named(layer.attention) for layer in network.encoder.layers]
    return collected


def test_layers_are_where_the_ablations_say() -> None:
    """The decoder follows the encoder."""
    assert layers_of() == ["D64", "D64", "N", "N"]
    assert layers_of("model.encoder.0.share=0.25", "model.encoder.1.share=0.75") == ["D64", "N", "N", "N"]
    assert layers_of("model.encoder.0.share=0", "model.encoder.1.share=null") == ["N"] * 4
    assert layers_of("model.encoder.0.share=1", "model.encoder.1.share=null") == ["D64"] * 4
    assert layers_of("model.encoder.0.attention.block_size=32") == ["D32", "D32", "N", "N"]
    assert layers_of("model.pattern=sequential_reversed") == ["N", "N", "D64", "D64"]
    assert layers_of("model.pattern=alternating") == ["D64", "N"] * 2
    assert layers_of("model.pattern=alternating_reversed") == ["N", "D64"] * 2
    assert layers_of("model.pattern=parallel") == ["D64+N"] * 4


def test_blocks_are_refused_as_cross_attention() -> None:
    with pytest.raises(ConfigError, match=r"model\.cross=DiagAttention: has no cross form"):
        target = "attnlab.attention.transnormer.DiagAttention"
        rest = ["~model.cross.feature_map", "~model.cross.norm"]
        check_command(["model=transnormer_t2", f"model.cross._target_={target}", *rest])


def test_a_block_holds_at_least_one_position() -> None:
    with pytest.raises(ConfigError, match=r"block_size=0: expected a whole number >= 1"):
        check_command(["model=transnormer_t2", "model.encoder.0.attention.block_size=0"])
