"""Recurrent mechanisms: published recurrences with gradients, decays of every size, layers, both directions."""

import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from support.golden_outputs import golden
from support.model_cases import RECURRENT, apply
from support.reference_comparison import compare_with_reference
from support.tensors import assert_same, draw, masks, shaken
from torch import Tensor

import attnlab.attention as mechanisms
from attnlab.attention.core import fla_kernels
from attnlab.attention.core import recurrent_layer as layer
from attnlab.attention.core import recurrent_sums as core
from attnlab.attention.core.recurrent_sums import CHUNK, Recurrent, recurrent_step, recurrent_sums
from attnlab.attention.recurrent import based
from attnlab.config.schema import Normalization

GOLDEN = {
    "retention": None,
    "scalar_gated_linear": "g",
    "gated_linear": "gk",
    "delta_rule": None,
    "negative_delta_rule": None,
    "gated_delta_rule": "g",
    "channel_gated_delta_rule": "g",
}
"""golden files with the name of their logarithms of decays"""


def recurrence_of(name: str, record: dict[str, Tensor]) -> Recurrent:
    """The inputs of a golden file; q is scaled inside the published function."""
    decay = None if GOLDEN[name] is None else record[GOLDEN[name]]
    if decay is not None and decay.ndim == 3:
        decay = decay[..., None]
    if name == "retention":
        decay = torch.log(1 - 2.0 ** (-5 - torch.arange(3).double()))[None, :, None, None]
    write = record["beta"][..., None] if "beta" in record else None
    return Recurrent(record["q"] * record["q"].shape[-1] ** -0.5, record["k"], record["v"], decay, write)


@pytest.mark.parametrize("name", GOLDEN)
def test_chunks_and_steps_equal_the_published_recurrence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """flash-linear-attention at bc3b101, naive recurrences; the file of the channel gated delta rule has the digits of
    float32 alone. Within a chunk and across chunks of 8."""
    record = golden(f"{name}_causal")
    expected = {key: record[key] for key in record if key == "out" or key.startswith("grad_")}
    tolerance = 1e-6 if name == "channel_gated_delta_rule" else 1e-12
    for size in (CHUNK, 8):
        monkeypatch.setattr(core, "CHUNK", size)
        inputs = {key.removeprefix("grad_"): record[key.removeprefix("grad_")] for key in expected if key != "out"}
        inputs = {key: value.clone().requires_grad_() for key, value in inputs.items()}
        out, last = recurrent_sums(recurrence_of(name, inputs))
        (out * record["cotangent"]).sum().backward()
        actual = {f"grad_{key}": value.grad for key, value in inputs.items()} | {"out": out.detach()}
        assert_same(actual, expected, tolerance)
        stepped, state = stepwise(recurrence_of(name, record))
        assert_same({"out": out.detach(), "last": last.detach()}, {"out": stepped, "last": state}, 1e-12)


def stepwise(read: Recurrent) -> tuple[Tensor, Tensor]:
    """Outputs of all positions one by one, and the last state."""
    batch, heads, length, width = read.k.shape
    state, out = torch.zeros(batch, heads, width, read.v.shape[-1], dtype=read.v.dtype), []
    for t in range(length):
        at = (None if x is None else x[:, :, min(t, x.shape[2] - 1)][:, :, None] for x in read)
        row, state = recurrent_step(state, Recurrent(*at))
        out.append(row)
    return torch.cat(out, dim=2), state


@pytest.mark.parametrize("key_width", [1, 2, 5])
@pytest.mark.parametrize("denominator", [True, False])
def test_based_equals_its_weights_in_segments(
    key_width: int, denominator: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs and gradients, in segments of two chunks, the last one shorter than a chunk."""
    monkeypatch.setattr(based, "SEGMENT", 9)
    normalization = Normalization(kind="l2", placement="before_feature_map", denominator=denominator)
    attention = mechanisms.BasedAttention(12, 3, key_width=key_width, chunk_size=4, normalization=normalization)
    shaken(attention.double())
    x, mask, weights = draw(3, 19, 12).requires_grad_(), masks([19, 6, 1], 19), draw(3, 3, 19, 4)
    q, (k, v) = attention.queries(x), attention.keys_values(x)
    results = []
    for out in (attention.attend(q, k, v, mask, True), attention.weights(q, k, mask, True) @ v):
        out = out * mask[:, None, :, None]
        (gradient,) = torch.autograd.grad((out * weights).sum(), x, retain_graph=True)
        results.append({"out": out, "gradient": gradient})
    assert_same(*results, tolerance=1e-9)


def test_based_and_forgetting_equal_the_published_forms() -> None:
    """The same source; heads as they are after the projections."""
    for name, kind in (("based", mechanisms.BasedAttention), ("forgetting", mechanisms.ForgettingAttention)):
        record = golden(f"{name}_causal")
        inputs = {key: record[key].clone().requires_grad_() for key in record if f"grad_{key}" in record}
        # eps of the operator of flash-linear-attention
        options = {"key_width": 5, "eps": 1e-6} if name == "based" else {}
        attention = kind(21 if name == "based" else 15, 3, **options).double()
        k = torch.cat((inputs["k"], inputs["g"][..., None]), dim=-1) if name == "forgetting" else inputs["k"]
        out = attention.attend(inputs["q"], k, inputs["v"], None, True)
        (out * record["cotangent"]).sum().backward()
        actual = {f"grad_{key}": value.grad for key, value in inputs.items()} | {"out": out.detach()}
        assert_same(actual, {key: record[key] for key in actual}, 1e-12)


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("columns", [1, 4])
def test_decays_of_every_size_keep_the_digits_of_float32(columns: int, write: bool) -> None:
    """Logarithms from -0.001 to -20 a step, alone and mixed, beside float64 and positions one by one."""
    length = 150
    constant = [torch.full((length, columns), value) for value in (-0.001, -1.0, -20.0)]
    mixed = -torch.exp(torch.empty(length, columns).uniform_(-7, 3))
    late = torch.cat((constant[2][:60], constant[0][60:]))
    for log_decay in (*constant, mixed, late):
        read = Recurrent(
            *(torch.randn(1, 2, length, 4) for _ in range(3)),
            log_decay.expand(1, 2, -1, -1).clone(),
            torch.rand(1, 2, length, 1) if write else None,
        )
        read = read._replace(k=torch.nn.functional.normalize(read.k, dim=-1))
        results = []
        for inputs, form in (
            (read, recurrent_sums),
            (Recurrent(*(x if x is None else x.double() for x in read)), stepwise),
        ):
            leaves = Recurrent(*(x if x is None else x.clone().requires_grad_() for x in inputs))
            out, _ = form(leaves)
            out.sum().backward()
            grads = {name: x.grad.double() for name, x in leaves._asdict().items() if x is not None}
            results.append({"out": out.detach().double(), **grads})
        assert_same(*results, tolerance=2e-5)


OPTIONS = {
    "RetentionAttention": [{"rotary": False, "output_norm": False, "output_gate": "none", "value_expansion": 1.0}],
    "GatedLinearAttention": [{"gate_temperature": 1.0, "key_expansion": 1.0, "convolution": 2}],
    "ScalarGatedLinearAttention": [{"gate": "log_sigmoid", "skip": False, "convolution": 0}],
    "DeltaRule": [{"beta_max": 2, "activation": False, "output_gate": "silu"}],
    "GatedDeltaRule": [{"beta_max": 2, "normalization": Normalization(kind="rms", placement="before_feature_map")}],
    "ChannelGatedDeltaRule": [{"output_gate": "none", "normalization": Normalization(kind="none")}],
}


@pytest.mark.parametrize("name", RECURRENT)
def test_every_part_of_the_layer_equals_the_reference(name: str) -> None:
    """As published and with other parts, causal and in both directions, with padding and the orthogonality loss."""
    for options in ({}, *OPTIONS[name]):
        attention = shaken(RECURRENT[name](8, 2, bidirectional=True, orthogonality=True, **options).double())
        for mode in ("causal", "bidirectional"):
            compare_with_reference(attention, mode, 6, (6, 2, 1, 0))
        x = draw(2, 7, 8)
        expected, state = apply(attention, "causal", x, None, None)[0], attention.init_state(2)
        for position in range(7):
            out, state = attention.step(x[:, position : position + 1], state)
            torch.testing.assert_close(out[:, 0], expected[:, position], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", RECURRENT)
def test_both_directions_keep_padding_out(name: str) -> None:
    attention, x = shaken(RECURRENT[name](8, 2, bidirectional=True).double()), draw(2, 9, 8)
    expected = attention(x[1:, :4])[0]
    torch.testing.assert_close(attention(x, mask=masks([9, 4], 9))[0][1:, :4], expected, rtol=1e-11, atol=1e-11)
    with pytest.raises(NotImplementedError, match="has no bidirectional form"):
        RECURRENT[name](8, 2)(x.float())


def test_the_state_does_not_grow() -> None:
    """But by the inputs that a convolution reads."""
    for kind in RECURRENT.values():
        sizes = [kind(16, 2).state_size(length) for length in (3, 4, 1000)]
        assert all(one == other for one, other in pairwise(sizes)) and sizes[0] > 0


def test_negative_eigenvalues_flip_a_state() -> None:
    """b = 2 reflects: what the state holds for a key of length 1 changes its sign, which no b up to 1 can do."""
    k, state = torch.nn.functional.normalize(draw(1, 1, 1, 4), dim=-1), draw(1, 1, 4, 3)
    for strength, factor in ((2.0, -1.0), (1.0, 0.0)):
        read = Recurrent(k, k, torch.zeros(1, 1, 1, 3).double(), None, torch.full((1, 1, 1, 1), strength).double())
        _, after = recurrent_step(state, read)
        torch.testing.assert_close(k @ after, factor * (k @ state), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", RECURRENT)
def test_kernels_get_their_arguments_and_need_a_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of each recurrence, with its axes; stand-ins by the recurrence itself, since Triton needs a GPU."""
    with pytest.raises(ValueError, match="fast=true: the kernels of flash-linear-attention need a GPU"):
        RECURRENT[name](8, 2, fast=True)

    def kernel(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, beta: Tensor | None = None, *, scale: float):
        g, beta = (x if x is None or x.ndim == 4 else x[..., None] for x in (g, beta))
        heads = (x if x is None else x.transpose(1, 2).double() for x in (q, k, v, g, beta))
        return recurrent_sums(Recurrent(*heads))[0].transpose(1, 2), None

    for module, function in fla_kernels.KERNELS.values():
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{function: kernel}))
    monkeypatch.setattr(layer, "missing_kernels", lambda: "")
    slow, quick = (RECURRENT[name](8, 2, fast=fast).double() for fast in (False, True))
    quick.load_state_dict(slow.state_dict())
    x = draw(2, 9, 8)
    torch.testing.assert_close(quick(x, causal=True), slow(x, causal=True), rtol=0.05, atol=0.01)


def test_a_head_of_broken_width_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"key_expansion=0.5: with d_model=6 and n_heads=2 heads of width 1.5; .*; nearest: 0.666667"
    ):
        mechanisms.GatedLinearAttention(6, 2)
