"""ProbSparse attention: switches when queries are selected, measure, counts, draws."""

import math

import pytest
import torch
from support.reference_comparison import compare_with_reference
from support.tensors import assert_same, draw, gradients, masks, shaken

from attnlab.attention.informer import DRAW_BITS, Informer
from attnlab.attention.softmax import SoftmaxAttention


def make(seed: int = 0, **options) -> Informer:
    torch.manual_seed(seed)
    return shaken(Informer(8, 2, **options).double().eval())


@pytest.mark.parametrize(
    "options",
    [
        {"factor": 1},
        {"factor": 2, "bias": False},
        {"factor": 1, "orthogonality": True},
        {"factor": 2, "mean_over": "sequence"},
    ],
)
def test_switches_equal_the_reference(options: dict[str, int | bool | str]) -> None:
    """Lengths of which one query is chosen, some, and all."""
    for length in (2, 9, 30):
        compare_with_reference(make(**options), "bidirectional", length)
    compare_with_reference(make(**options), "bidirectional", 25, (25, 21, 8, 3, 2, 1, 0))


@pytest.mark.parametrize("seed", range(10))
def test_repeated_tokens_do_not_see_the_padding(seed: int) -> None:
    """Equal tokens have equal measures but for rounding, which depends on the shape: the earlier is chosen anyway."""
    attention, tokens = make(seed, factor=4), draw(3, 8)
    x, weights = tokens[torch.randint(3, (2, 30))].requires_grad_(), draw(2, 30, 8)
    real = masks([30, 17], 30)
    out, _ = attention(x, None, real)
    expected = gradients((out * weights)[real].sum(), attention, x=x) | {"out": out[real]}
    for extra in (2, 50):
        longer = torch.cat((x.detach(), draw(2, extra, 8)), dim=1).requires_grad_()
        out = attention(longer, None, masks([30, 17], 30 + extra))[0][:, :30]
        actual = gradients((out * weights)[real].sum(), attention, x=longer) | {"out": out[real]}
        assert not actual["x"][:, 30:].any()
        assert_same(actual | {"x": actual["x"][:, :30]}, expected, 1e-10)


def test_of_equal_tokens_the_earlier_is_chosen() -> None:
    """In every number format and at every length, though a product's rounding differs from row to row."""
    for dtype in (torch.float32, torch.float64):
        for length in range(40, 120, 7):
            attention = make(factor=4).to(dtype)
            x = torch.randn(1, 4, 8, dtype=dtype)[:, torch.arange(length) % 4]
            q, k = attention.queries(x), attention.keys_values(x)[0]
            lengths = torch.tensor([length])
            counts = attention.counts(lengths)
            measures = attention.measures(q, k, lengths, counts, int(counts))
            for token in range(4):
                same = measures[..., token::4]
                assert (same == same[..., :1]).all()


def test_it_chooses_as_many_as_it_says() -> None:
    """The others have the mean of the values."""
    attention, x, lengths = make(factor=2), draw(3, 60, 8), [60, 33, 2]
    q, k = attention.queries(x), attention.keys_values(x)[0]
    mask = masks(lengths, 60)
    weights = attention.weights(q, k, mask, False)
    for b, length in enumerate(lengths):
        rows = weights[b, :, :length, :length]
        torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]), rtol=1e-12, atol=0)
        chosen = ((rows - 1 / length).abs() > 1e-9).any(-1).sum(-1)
        assert chosen.tolist() == [min(length, 2 * math.ceil(math.log(length)))] * 2
        assert not weights[b, :, length:].any()
        assert not weights[b, ..., length:].any()


def test_counts_grow_with_the_logarithm() -> None:
    lengths = [*range(1, 3000), 8103, 8104, 22026, 22027, 59874, 59875]
    expected = [min(n, 5 * max(1, math.ceil(math.log(n)))) for n in lengths]
    assert make().counts(torch.tensor(lengths)).tolist() == expected
    assert make().counts(torch.tensor([0])).tolist() == [0]


def test_a_budget_gives_the_factor_of_skyformers_code() -> None:
    """ceil(128 / ln n), with n rounded up to a power of 2 there; at our lengths the factor is the same."""
    collected = {n: make(factor=None, budget=128, max_length=n).factor for n in (1024, 2000, 2048, 4000, 4096)}
    assert collected == {1024: 19, 2000: 17, 2048: 17, 4000: 16, 4096: 16}
    assert make(factor=None, budget=3, max_length=1).factor == 3
    for options in ({"factor": None}, {"factor": 2, "budget": 128}, {"budget": 128}):
        with pytest.raises(ValueError, match="a number for one, and null for the other"):
            make(**options)


@pytest.mark.parametrize("length", [1, 2, 7, 15])
def test_a_short_sequence_has_softmax_attention(length: int) -> None:
    attention, softmax = make(), SoftmaxAttention(8, 2).double()
    softmax.load_state_dict(attention.state_dict(), strict=False)
    x, mask = draw(3, length, 8), masks([length, (length + 1) // 2, 1], length)
    expected, _ = softmax(x, None, mask)
    torch.testing.assert_close(attention(x, None, mask)[0][mask], expected[mask], rtol=1e-12, atol=1e-12)


def test_a_redraw_follows_its_generator() -> None:
    attention, x = make(factor=1), draw(2, 40, 8)
    before, buffer = attention(x)[0], attention.draws
    attention.redraw(torch.Generator().manual_seed(1))
    first = attention.draws.clone()
    assert attention.draws is buffer
    assert (attention(x)[0] - before).abs().max() > 1e-3
    attention.redraw(torch.Generator().manual_seed(2))
    assert not torch.equal(attention.draws, first)
    attention.redraw(torch.Generator().manual_seed(1))
    assert torch.equal(attention.draws, first)
    assert attention.redraw_every == 1
    assert make(redraw_every=None).redraw_every is None
    assert "draws" in attention.state_dict()


def test_draws_reach_every_key_and_no_other() -> None:
    attention = make(factor=400)
    assert attention.draws.shape == (2, 32 * 400)
    assert torch.equal(make(factor=400).bfloat16().draws, attention.draws)
    for length in (1, 3, 1000):
        keys = (attention.draws * length) >> DRAW_BITS
        assert keys.unique().tolist() == list(range(length))
    assert (((2**DRAW_BITS - 1) * 4096) >> DRAW_BITS) == 4095


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_measures_in_float32(dtype: torch.dtype) -> None:
    """The same queries are chosen as in float64, and sums over 2,000 values are as good as their rounding."""
    q, k, v = (torch.randn(1, 2, 2000, 4).to(dtype) for _ in range(3))
    expected = make().attend(q.double(), k.double(), v.double(), None, False)
    with torch.autocast("cpu", dtype):
        actual = make().to(dtype).attend(q, k, v, None, False)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=2e-2, atol=2e-3)
