"""LSH attention: switches with several chunks, chunks, rounds, hashes, redraws."""

import subprocess
import sys

import pytest
import torch
from support.golden_outputs import golden, with_weights
from support.model_cases import apply
from support.reference_comparison import compare_with_reference
from support.tensors import assert_same, draw, gradients, masks, shaken

from attnlab.attention.reformer import Reformer

COMPILED = """
import torch
from attnlab.attention.reformer import Reformer
attention, x = Reformer(8, 2, max_length=10, chunk_size=4), torch.randn(2, 10, 8)
mask = torch.arange(10) < torch.tensor([[10], [7]])
found, _ = torch.compile(attention, fullgraph=True, backend="eager")(x, None, mask)
torch.testing.assert_close(found, attention(x, None, mask)[0])
"""


def make(seed: int = 0, **options) -> Reformer:
    torch.manual_seed(seed)
    options = {"max_length": 24, "chunk_size": 4} | options
    return shaken(Reformer(8, 2, **options).double().eval())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_hashes": 1, "bias": False},
        {"n_hashes": 3, "chunk_size": 3, "orthogonality": True},
        {"chunk_size": 1},
        {"n_buckets": 2},
        {"n_buckets": 64},
    ],
)
def test_switches_equal_the_reference(options: dict[str, int | bool]) -> None:
    """Chunks that the last real token fills, and that it does not; samples of no, one and some chunks."""
    for length in (4, 5, 23):
        compare_with_reference(make(**options), "bidirectional", length)
    compare_with_reference(make(**options), "bidirectional", 18, (18, 16, 9, 5, 4, 1, 0))


def test_equals_hugging_face() -> None:
    """transformers 4.46.3, LSHSelfAttention: 2 rounds, chunks of 4, the rotations it drew, 40 and 29 real positions.

    All but the first chunk of each round: there it sees the last chunk of the round before, ours no other chunk.
    """
    record = golden("reformer_lsh_padded_keys")
    options = {"bias": False, "chunk_size": int(record["chunk_size"]), "n_buckets": 2 * record["rotations"].shape[2]}
    attention = with_weights(Reformer(8, 2, **options), record)
    attention.rotations.copy_(record["rotations"])
    mask = masks(record["key_lengths"].tolist(), record["x"].shape[1])
    q = attention.queries(record["x"])
    out = attention.attend(q, *attention.keys_values(record["x"]), mask, False)
    rows = (attention.order(q, mask).argsort(-1) >= attention.chunk_size).all(2) & mask[:, None]
    assert rows.sum() == 108
    torch.testing.assert_close(out[rows], record["out"][rows], rtol=1e-9, atol=0)


def test_gradients_are_those_of_the_output_across_chunks() -> None:
    attention, x, mask = make(chunk_size=2), draw(2, 7, 8).requires_grad_(), masks([7, 5], 7)
    torch.autograd.gradcheck(lambda x: attention(x, None, mask)[0][mask], x, fast_mode=True)


def test_repeated_tokens_do_not_see_the_padding() -> None:
    """Tokens of one bucket keep their order, whatever tokens follow."""
    attention, tokens = make(n_hashes=3), draw(3, 8)
    x, weights = tokens[torch.randint(3, (2, 21))].requires_grad_(), draw(2, 21, 8)
    real = masks([21, 10], 21)
    out, _ = attention(x, None, real)
    expected = gradients((out * weights)[real].sum(), attention, x=x) | {"out": out[real]}
    for extra in (1, 2, 50):
        longer = torch.cat((x.detach(), draw(2, extra, 8)), dim=1).requires_grad_()
        out = attention(longer, None, masks([21, 10], 21 + extra))[0][:, :21]
        actual = gradients((out * weights)[real].sum(), attention, x=longer) | {"out": out[real]}
        assert not actual["x"][:, 21:].any()
        assert_same(actual | {"x": actual["x"][:, :21]}, expected, 1e-10)


def test_a_token_without_others_attends_to_itself() -> None:
    for chunk_size, length in ((4, 1), (1, 1)):
        attention, x = make(chunk_size=chunk_size), draw(2, length, 8)
        torch.testing.assert_close(attention(x)[0], attention.out_proj(attention.v_proj(x)), rtol=1e-12, atol=1e-12)


def test_it_sees_no_more_than_its_chunks() -> None:
    """Weights add up to 1; a token sees at most two chunks a round, never itself."""
    for n_hashes in (1, 2):
        attention, x, mask = make(n_hashes=n_hashes), draw(2, 64, 8), masks([64, 37], 64)
        q = attention.queries(x)
        weights = attention.weights(q, q, mask, False)
        total = weights.sum(-1)
        torch.testing.assert_close(total, mask[:, None].expand_as(total).double(), rtol=1e-12, atol=1e-12)
        assert ((weights > 0).sum(-1) <= n_hashes * 7).all()
        assert not weights.diagonal(dim1=-2, dim2=-1).any()


def test_tokens_of_one_direction_meet_wherever_they_stand() -> None:
    """Equal ones are of one bucket in every round: the later sees the earlier across 190 others."""
    attention = make(n_hashes=1, n_buckets=50, chunk_size=32, bias=False)
    x = draw(1, 200, 8)
    x[:, 195] = x[:, 3]
    q = attention.queries(x)
    weights = attention.weights(q, q, None, False)[0, :, 195]
    assert (attention.buckets(q)[..., 195] == attention.buckets(q)[..., 3]).all()
    assert (weights[:, 3] > 0).all()
    assert ((weights > 0).sum(-1) < 64).all()


def test_the_number_of_buckets_follows_the_longest_sequence() -> None:
    assert make(max_length=4096, chunk_size=64).n_buckets == 128
    assert make(max_length=1000, chunk_size=64).n_buckets == 32
    assert make(max_length=3, chunk_size=64).rotations.shape == (2, 4, 1)
    assert make(n_buckets=6, n_hashes=5).rotations.shape == (5, 4, 3)


def test_a_redraw_follows_its_generator() -> None:
    attention, x = make(), draw(2, 20, 8)
    before, buffer = attention(x)[0], attention.rotations
    attention.redraw(torch.Generator().manual_seed(1))
    first = attention.rotations.clone()
    assert attention.rotations is buffer
    assert (attention(x)[0] - before).abs().max() > 1e-3
    attention.redraw(torch.Generator().manual_seed(2))
    assert not torch.equal(attention.rotations, first)
    attention.redraw(torch.Generator().manual_seed(1))
    assert torch.equal(attention.rotations, first)
    assert attention.redraw_every == 1
    assert make(redraw_every=None).redraw_every is None
    assert "rotations" in attention.state_dict()


@pytest.mark.parametrize("length", [4, 20])
def test_dropout_is_for_training(length: int) -> None:
    attention, x = make(dropout=0.5), draw(2, length, 8)
    torch.testing.assert_close(attention(x)[0], make()(x)[0], rtol=0, atol=0)
    attention.train()
    assert not torch.equal(attention(x)[0], attention(x)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_attends_in_float32(dtype: torch.dtype) -> None:
    q, k, v = (torch.randn(1, 2, 50, 4).to(dtype) for _ in range(3))
    attention = make()
    attention.rotations.copy_(attention.rotations.to(dtype))
    expected = attention.attend(q.double(), k.double(), v.double(), None, False)
    with torch.autocast("cpu", dtype):
        actual = make().to(dtype).attend(q, k, v, None, False)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=8e-3, atol=1e-5)


@pytest.mark.slow
def test_it_compiles_across_chunks() -> None:
    """In a process without shape checks, as in test_laws_compile.py; the networks of the law have one chunk."""
    done = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("length", [1, 3, 8, 9, 21])
def test_it_is_finite_across_chunks(length: int) -> None:
    for scale in (0.0, 1e-4, 1.0, 1e4):
        attention, x = make().float(), (scale * torch.randn(3, length, 8)).requires_grad_()
        for mask in (None, masks([length, length // 2, 0], length)):
            out, _ = apply(attention, "bidirectional", x, None, mask)
            for value in (out, *gradients(out.mean(), attention, x=x).values()):
                assert value.isfinite().all()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"n_buckets": 5}, "n_buckets=5"),
        ({"n_buckets": 0}, "n_buckets=0"),
    ],
)
def test_impossible_sizes_are_refused(options: dict[str, int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make(**options)
