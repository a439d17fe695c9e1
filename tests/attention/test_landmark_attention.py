"""Nystromformer and Skyformer: switches, published outputs, approximation, sampling, number formats."""

import copy
import math
from itertools import product

import pytest
import torch
from support.golden_outputs import assert_golden, golden, with_weights
from support.reference_comparison import compare_with_reference
from support.tensors import draw, masks, shaken

from attnlab.attention.base import Attention
from attnlab.attention.core.landmarks import segments
from attnlab.attention.core.softmax_core import fused_softmax
from attnlab.attention.nystromformer import Nystromformer
from attnlab.attention.skyformer import Skyformer

BOTH = (Nystromformer, Skyformer)


def make(mechanism: type[Attention], **options) -> Attention:
    torch.manual_seed(0)
    return shaken(mechanism(8, 2, **options).double().eval())


@pytest.mark.parametrize("options", [{"n_landmarks": m, "conv_kernel": c} for m, c in product((1, 3, 8), (None, 1, 5))])
def test_nystromformer_equals_the_reference(options: dict) -> None:
    """More positions than landmarks, as many, and fewer; a convolution wider than the shortest sequences."""
    attention = make(Nystromformer, **options, pinv_iterations=4, orthogonality=True, bias=options["n_landmarks"] > 1)
    compare_with_reference(attention, "bidirectional", 10)
    compare_with_reference(attention, "bidirectional", 13, (13, 9, 8, 3, 1, 0))


@pytest.mark.parametrize("n_landmarks", [3, 8])
def test_the_published_start_of_the_inverse_is_over_the_batch_and_equals_the_reference(n_landmarks: int) -> None:
    options = {"n_landmarks": n_landmarks, "conv_kernel": None, "pinv_iterations": 2}
    attention = make(Nystromformer, **options, inverse_start="batch")
    compare_with_reference(attention, "bidirectional", 10)
    compare_with_reference(attention, "bidirectional", 13, (13, 9, 8, 3, 1, 0))
    x = draw(2, 12, 8)

    def effect_of_the_other_sample(attention: Nystromformer) -> float:
        alone = torch.cat([attention(sample)[0] for sample in x.split(1)])
        return (attention(x)[0] - alone).abs().max().item()

    assert effect_of_the_other_sample(attention) > 1e-6
    assert effect_of_the_other_sample(with_start(attention, "head")) < 1e-12


def with_start(attention: Nystromformer, start: str) -> Nystromformer:
    """A copy with another start of the inverse."""
    other = copy.deepcopy(attention)
    other.inverse_start = start
    return other


@pytest.mark.parametrize("sampling", ["segments", "uniform"])
@pytest.mark.parametrize(("n_landmarks", "ridge"), [(2, 0.1), (6, 0.01), (16, 1.0)])
def test_skyformer_equals_the_reference(n_landmarks: int, ridge: float, sampling: str) -> None:
    options = {"n_landmarks": n_landmarks, "ridge": ridge, "sampling": sampling, "inverse_iterations": 4}
    attention = make(Skyformer, **options, orthogonality=True, bias=n_landmarks > 2)
    compare_with_reference(attention, "bidirectional", 10)
    compare_with_reference(attention, "bidirectional", 13, (13, 9, 8, 3, 1, 0))


def test_nystromformer_equals_the_package() -> None:
    """nystrom-attention 0.0.14, Nystromformer: one sample and one head, because its inverse starts from a maximum
    over both; segments of equal length without padding, where its landmarks are ours."""
    record = golden("nystromformer_bidirectional")
    conv = record["conv_weight"]
    attention = Nystromformer(6, 1, n_landmarks=int(record["n_landmarks"]), conv_kernel=conv.shape[2])
    attention = with_weights(attention, record)
    with torch.no_grad():
        attention.conv.weight.copy_(conv)
        for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
            projection.bias.zero_()
    assert_golden(attention(record["x"])[0], record)


def test_nystromformer_with_every_token_a_landmark_is_softmax_attention() -> None:
    """As far as the iterations have converged; also of a sequence that padding makes longer than the landmarks."""
    attention = make(Nystromformer, n_landmarks=7, pinv_iterations=40, conv_kernel=None)
    q, k, v, mask = draw(2, 2, 9, 4), draw(2, 2, 9, 4), draw(2, 2, 9, 3), masks([7, 4], 9)
    result = attention.attend(q, k, v, mask, False)
    torch.testing.assert_close(result, fused_softmax(q, k, v, mask, False), rtol=1e-8, atol=1e-8)


def test_skyformer_with_every_token_a_landmark_is_kernelized_attention() -> None:
    attention = make(Skyformer, sampling="segments", n_landmarks=14, ridge=1e-9, inverse_iterations=60)
    q, k, v, mask = draw(2, 2, 9, 4), draw(2, 2, 9, 4), draw(2, 2, 9, 3), masks([7, 4], 9)
    kernel = torch.exp(-torch.cdist(q, k).square() / (2 * math.sqrt(4))) * mask[:, None, None, :]
    torch.testing.assert_close(attention.attend(q, k, v, mask, False), kernel @ v, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mechanism", BOTH)
def test_more_landmarks_come_closer(mechanism: type[Attention]) -> None:
    """To the attention with one landmark for each token."""
    q, k, v = draw(4, 2, 64, 4), draw(4, 2, 64, 4), draw(4, 2, 64, 4)
    number = (
        {"n_landmarks": 64, "conv_kernel": None}
        if mechanism is Nystromformer
        else {"n_landmarks": 128, "sampling": "segments"}
    )
    whole = make(mechanism, **number).attend(q, k, v, None, False)
    errors = [
        (make(mechanism, **number | {"n_landmarks": m}).attend(q, k, v, None, False) - whole).norm()
        for m in (4, 16, 48)
    ]
    assert errors[0] > errors[1] > errors[2]


def test_segments_hold_every_real_position_once() -> None:
    starts, sizes = segments(torch.tensor([10, 4, 3, 1, 0]), 4)
    assert sizes.tolist() == [[3, 2, 3, 2], [1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert starts.tolist()[:2] == [[0, 3, 5, 8], [0, 1, 2, 3]]
    for n in range(50):
        starts, sizes = segments(torch.tensor([n]), 7)
        assert int(sizes.sum()) == n
        assert (sizes > 0).sum() == min(n, 7)


@pytest.mark.parametrize("sampling", ["segments", "uniform"])
def test_samples_are_real_positions(sampling: str) -> None:
    """By segments, none twice."""
    attention, lengths = make(Skyformer, n_landmarks=10, sampling=sampling), torch.tensor([30, 7, 5, 2, 1])
    positions, real = attention._positions(lengths, 30)
    for b, n in enumerate(lengths.tolist()):
        for half in positions[b].tolist():
            kept = [position for position, there in zip(half, real[b].tolist(), strict=False) if there]
            assert len(kept) == (5 if sampling == "uniform" else min(n, 5))
            assert all(0 <= position < n for position in kept)
            assert sampling == "uniform" or len(set(kept)) == len(kept)


def test_redrawing_changes_the_sample_of_long_sequences() -> None:
    """The generator alone decides; a sequence with every token as a landmark is unchanged."""
    attention, long, short = make(Skyformer, n_landmarks=8, sampling="segments"), draw(1, 30, 8), draw(1, 4, 8)
    assert attention.redraw_every == 1
    before, before_short, draws = attention(long)[0], attention(short)[0], attention.draws.clone()
    attention.redraw(torch.Generator().manual_seed(1))
    drawn = attention.draws.clone()
    assert not torch.equal(drawn, draws)
    assert not torch.allclose(attention(long)[0], before)
    assert torch.equal(attention(short)[0], before_short)
    attention.redraw(torch.Generator().manual_seed(1))
    assert torch.equal(attention.draws, drawn)
    assert torch.equal(attention.state_dict()["draws"], drawn)


@pytest.mark.parametrize("mechanism", BOTH)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_computes_in_float32(mechanism: type[Attention], dtype: torch.dtype) -> None:
    """The inverse magnifies rounding: the result is all the same as good as its own rounding, also under autocast."""
    options = {"n_landmarks": 16} | ({"conv_kernel": None} if mechanism is Nystromformer else {})
    q, k, v = (torch.randn(1, 2, 500, 4).to(dtype) for _ in range(3))
    expected = make(mechanism, **options).attend(q.double(), k.double(), v.double(), None, False)
    with torch.autocast("cpu", dtype):
        actual = make(mechanism, **options).to(dtype).attend(q, k, v, None, False)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=8e-3, atol=1e-3 * expected.abs().max().item())


@pytest.mark.parametrize("mechanism", BOTH)
def test_a_sample_without_real_positions_gives_zeros(mechanism: type[Attention]) -> None:
    result = make(mechanism).attend(draw(2, 2, 5, 4), draw(2, 2, 5, 4), draw(2, 2, 5, 3), masks([0, 2], 5), False)
    assert result.shape == (2, 2, 5, 3)
    assert not result[0].any()
    assert result[1, :, :2].all()


@pytest.mark.parametrize("mechanism", BOTH)
def test_other_forms_are_refused(mechanism: type[Attention]) -> None:
    attention, x = make(mechanism), draw(1, 3, 8)
    with pytest.raises(NotImplementedError, match="has no causal form"):
        attention(x, causal=True)
    with pytest.raises(NotImplementedError, match="has no cross form"):
        attention(x, x)
    with pytest.raises(NotImplementedError, match="no step form"):
        attention.init_state(1)


def test_errors_name_the_argument() -> None:
    with pytest.raises(ValueError, match="conv_kernel=4: expected an odd number"):
        Nystromformer(8, 2, conv_kernel=4)
    with pytest.raises(ValueError, match="n_landmarks=5: expected an even number"):
        Skyformer(8, 2, n_landmarks=5)
