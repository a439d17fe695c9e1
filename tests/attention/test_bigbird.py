"""BigBird with small blocks: visible blocks, padding, random blocks, number formats."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from reference.bigbird import seen_by
from support.finite_checks import require_finite
from support.golden_outputs import assert_golden, golden, with_weights
from support.model_cases import apply
from support.reference_comparison import compare_with_reference
from support.small_runs import ROOT, environment
from support.tensors import assert_same, gradients, masks, shaken
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnlab.attention.base import Attention
from attnlab.attention.bigbird import BigBird
from attnlab.attention.core.softmax_core import fused_softmax
from attnlab.config.job_config import check_config, compose_config

OPTIONS = (
    {},
    {"block_size": 1, "bias": False},
    {"block_size": 3, "window_blocks": 1, "orthogonality": True},
    {"window_blocks": 5, "random_blocks": 1, "global_last": 0},
    {"random_blocks": 0, "global_first": 2},
    {"global_first": 0, "global_last": 0},
    {"global_first": 0, "global_last": 3},
)


def make(seed: int = 0, **options) -> BigBird:
    """In blocks of 2 it is full attention up to 14 positions."""
    torch.manual_seed(seed)
    return shaken(BigBird(8, 2, **({"block_size": 2} | options)).double().eval())


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def heads(length: int, batch: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.randn(batch, 2, length, 4, dtype=torch.float64) for _ in range(3))


@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_equals_the_reference(options: dict[str, object]) -> None:
    attention = make(**options)
    compare_with_reference(attention, "bidirectional", 31)
    compare_with_reference(attention, "bidirectional", 30, (30, 17, 16, 3, 1, 0))


@pytest.mark.parametrize("options", OPTIONS)
def test_padding_changes_nothing(options: dict[str, object]) -> None:
    """Of any length and finite content, at lengths on both sides of a block's border."""
    attention = make(**options)
    for length in (15, 24, 25):
        x, weights = draw(2, length, 8), torch.randn(2, length, 8, dtype=torch.float64)
        out, penalty = attention(x)
        expected = gradients((out * weights).sum() + penalty, attention, x=x) | {"out": out}
        for extra, content in ((1, 0.7), (2, -1e30), (40, torch.finfo(torch.float64).max)):
            filling = torch.full((2, extra, 8), content, dtype=torch.float64)
            longer = torch.cat((x.detach(), filling), dim=1).requires_grad_()
            out, penalty = attention(longer, None, masks([length] * 2, length + extra))
            actual = gradients((out[:, :length] * weights).sum() + penalty, attention, x=longer)
            assert not actual["x"][:, length:].any()
            actual["x"] = actual["x"][:, :length]
            assert_same(actual | {"out": out[:, :length]}, expected, 1e-10)


def test_rows_of_different_length_do_not_meet() -> None:
    """Each sample gives what it gives alone; the last global block is each sample's own."""
    attention, lengths = make(), (40, 23, 22, 15, 3, 0)
    x, weights = draw(6, 40, 8), torch.randn(6, 40, 8, dtype=torch.float64)
    out, _ = attention(x, None, masks(lengths, 40))
    actual = gradients((out * weights)[masks(lengths, 40)].sum(), attention, x=x)
    expected = {name: torch.zeros_like(gradient) for name, gradient in actual.items()}
    for b, length in enumerate(lengths[:-1]):
        alone = x[b : b + 1, :length].detach().requires_grad_()
        out_alone, _ = attention(alone)
        torch.testing.assert_close(out[b, :length], out_alone[0], rtol=1e-10, atol=1e-10)
        for name, gradient in gradients((out_alone[0] * weights[b, :length]).sum(), attention, x=alone).items():
            target = expected[name][b, :length] if name == "x" else expected[name]
            target += gradient[0] if name == "x" else gradient
    assert_same(actual, expected, 1e-10)


def test_equals_hugging_face() -> None:
    """transformers 4.57.6, BigBirdBlockSparseAttention in training mode, 14 full blocks, on the random blocks it drew.

    Outside training it takes block 0 for every random one. Padding is left out: its last block is that of the padded
    length. `out` has no output projection.
    """
    record = golden("bigbird_bidirectional")
    n_heads, inner, random_blocks = record["random_blocks"].shape
    attention = BigBird(8, n_heads, block_size=int(record["block_size"]), random_blocks=random_blocks)
    attention = with_weights(attention, record)
    attention.out_proj.load_state_dict({"weight": torch.eye(8), "bias": torch.zeros(8)})
    drawn = torch.zeros(n_heads, inner + 2, inner + 2, dtype=torch.int64)
    drawn[:, 1:-1].scatter_(2, record["random_blocks"].long(), 1)
    attention.priorities = lambda n_blocks: drawn
    assert_golden(attention(record["x"])[0], record)


@pytest.mark.parametrize("lengths", [(1, 1), (14, 14), (14, 9), (13, 0)])
def test_few_blocks_are_softmax_attention(lengths: tuple[int, int]) -> None:
    """Exactly; and the sparse form agrees, so that it does not matter where one ends and the other begins."""
    attention, mask = make(), masks(lengths, max(lengths))
    q, k, v = heads(max(lengths))
    expected = fused_softmax(q, k, v, mask, False)
    assert torch.equal(attention.attend(q, k, v, mask, False), expected)
    real = mask[:, None, :, None]
    actual = attention.attend_sparsely(q, k, v, mask)
    torch.testing.assert_close(actual * real, expected * real, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", OPTIONS)
def test_full_length_is_where_full_attention_ends(options: dict[str, object]) -> None:
    attention = make(**options)
    q, k, _ = heads(attention.full_length)
    assert attention.weights(q, k, None, False).all()
    q, k, _ = heads(attention.full_length + 1)
    assert not attention.weights(q, k, None, False).all()


def test_weights_are_exactly_0_where_nothing_is_seen() -> None:
    attention, lengths = make(), (41, 30, 9, 0)
    mask, (q, k, _) = masks(lengths, 41), heads(41, batch=4)
    weights = attention.weights(q, k, mask, False)
    read = Attention.weights(attention, q, k, mask, False)
    for b, length in enumerate(lengths):
        torch.testing.assert_close(weights[b, :, :length], read[b, :, :length], rtol=1e-12, atol=1e-15)
        n_blocks = -(-length // 2)
        for h in range(2):
            for i in range(length):
                seen = seen_by(attention, h, i // 2, n_blocks)
                expected = torch.tensor([j < length and j // 2 in seen for j in range(41)])
                assert torch.equal(weights[b, h, i] > 0, expected)
                assert torch.equal(read[b, h, i] > 0, expected)
    assert weights[0, :, :2].all()
    assert weights[0, :, 40].all()
    assert weights[0, :, :, :2].all()
    assert weights[0, :, :, 40].all()


@pytest.mark.parametrize("lengths", [(9, 9), (20, 20), (100, 37)])
def test_every_block_sees_its_share_of_random_blocks(lengths: tuple[int, int]) -> None:
    """Three besides near and global blocks, or all that are left; no block twice."""
    sees = make().sees(lengths[0], torch.tensor(lengths) * 2)
    for b, n_blocks in enumerate(lengths):
        assert not sees[b, :, :, n_blocks:].any()
        for i in range(1, n_blocks - 1):
            fixed = {0, i - 1, i, i + 1, n_blocks - 1}
            assert sees[b, :, i, sorted(fixed)].all()
            assert (sees[b, :, i].sum(-1) == min(len(fixed) + 3, n_blocks)).all()


def test_random_blocks_are_spread_evenly() -> None:
    """Over heads every block that is free is drawn equally often, and so is every pair of blocks with each other."""
    attention, generator = BigBird(100, 100, redraw_every=1), torch.Generator().manual_seed(0)
    free, draws = [1, 2, 3, 4, 5, 9, 10, 11, 12, 13], []
    for _ in range(80):
        draws.append(attention.sees(15, torch.tensor([15 * 64]))[0, :, 7, free].float())
        attention.redraw(generator)
    sees = torch.cat(draws)
    expected = torch.full((10, 10), 8000 * 3 / 10 * 2 / 9).fill_diagonal_(8000 * 3 / 10)
    assert ((sees.T @ sees - expected).abs() < 4.5 * expected.sqrt()).all()


def test_heads_and_rows_draw_their_own() -> None:
    table = make().priorities(40)
    assert len(table.unique()) == table.numel()
    picks = table.topk(3).indices.sort(-1).values.flatten(0, 1)
    assert len(picks.unique(dim=0)) > 75


def test_random_blocks_are_redrawn_on_request_only() -> None:
    attention, x = make(redraw_every=10), draw(2, 40, 8)
    assert (attention.redraw_every, make().redraw_every) == (10, None)
    before, result = attention(x)[0], []
    assert torch.equal(attention.train()(x)[0], before)
    for seed in (1, 2, 1):
        attention.redraw(torch.Generator().manual_seed(seed))
        result.append(attention(x)[0])
    assert torch.equal(result[0], result[2])
    assert not torch.equal(result[0], result[1])
    assert not torch.equal(result[0], before)


def test_random_blocks_belong_to_the_state_of_the_module() -> None:
    item, other, x = make(), make(seed=1), draw(2, 40, 8)
    other.load_state_dict(item.state_dict())
    assert torch.equal(item(x)[0], other(x)[0])
    assert not torch.equal(item.coefficients, make(seed=1).coefficients)


def test_forward_and_backward_are_finite() -> None:
    require_finite(SimpleNamespace(make=make), "bidirectional")


class Largest(TorchDispatchMode):
    """Remembers the size of the largest tensor that any operation gives."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.size = max([self.size, *(leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor))])
        return out


def test_no_matrix_of_all_positions() -> None:
    attention, sizes = make(block_size=16), []
    for length in (1024, 2048):
        with Largest() as largest:
            attention(draw(1, length, 8), None, masks([length - 3], length))[0].sum().backward()
        sizes.append(largest.size)
    assert sizes[0] < 1024**2 / 2
    assert sizes[1] == 2 * sizes[0]


@pytest.mark.slow
def test_the_sparse_form_has_no_graph_break() -> None:
    """In a process without shape checks, as in tests/support/compile_networks.py."""
    code = """
import torch
from attnlab.attention.bigbird import BigBird
attention, x = BigBird(8, 2, block_size=2).double(), torch.randn(2, 40, 8, dtype=torch.float64)
compiled = torch.compile(attention, fullgraph=True, backend="eager")
for mask in (None, torch.arange(40) < torch.tensor([[40], [21]])):
    torch.testing.assert_close(compiled(x, None, mask, False)[0], attention(x, None, mask, False)[0])
"""
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


def test_dropout_acts_in_training_only() -> None:
    for length in (10, 40):
        attention, x = make(dropout=0.5), draw(2, length, 8)
        assert torch.equal(attention.eval()(x)[0], make()(x)[0])
        assert not torch.equal(attention.train()(x)[0], make()(x)[0])


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="BigBird has no causal form"):
        apply(make(), "causal", draw(2, 4, 8), None, None)
    with pytest.raises(ValueError, match="window_blocks=4: expected an odd number"):
        make(window_blocks=4)
    messages = check_config(compose_config(["task=scan", "model=bigbird"]))
    assert [problem.partition(", which")[0] for problem in messages] == [
        "model.decoder.0.attention=BigBird: has no causal and no step form",
        "model.cross=BigBird: has no cross and no step form",
    ]
