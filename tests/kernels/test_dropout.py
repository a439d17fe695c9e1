"""Tests of dropout: shares, draws, gradients and compiled steps."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from support.gpu import requires_gpu
from support.small_runs import environment
from torch import Tensor

from attnlab.kernels.dropout import Dropout, dropped

SHAPE = (300, 401)
"""a number of values that is no multiple of the four numbers of a word"""


def assert_share(zeros: Tensor, rate: float) -> None:
    """The share of zeros is the rate, within five standard errors."""
    error = math.sqrt(rate * (1 - rate) / zeros.numel())
    assert abs(zeros.double().mean().item() - rate) < 5 * error + 2**-17


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_share_of_zeros_and_size_of_kept_values(rate: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    out = dropped(torch.ones(SHAPE, dtype=dtype), rate)
    zeros = (out == 0).flatten()
    for number_in_word in range(4):
        assert_share(zeros[number_in_word::4], rate)
    # Numbers of one word, and of one word after another, are independent.
    for distance in (1, 2, 3, 4):
        assert_share(zeros[:-distance] & zeros[distance:], rate**2)
    expected = torch.tensor(1 / (1 - rate), dtype=torch.float64).to(dtype)
    torch.testing.assert_close(out[out != 0].unique(), expected[None], rtol=1.01 * 2**-17 / (1 - rate), atol=0)
    assert out.dtype == dtype


def test_the_mean_is_exact_for_a_rate_that_is_rounded() -> None:
    rate = 3.4 * 2**-16
    out = dropped(torch.ones(64, 2**16), rate)
    zeros = int((out == 0).sum())
    # three of 2^16 draws are dropped, and the others are larger by the inverse of that share
    assert abs(zeros - 3 * 64) < 5 * math.sqrt(3 * 64)
    assert out.max().item() == pytest.approx(2**16 / (2**16 - 3), rel=1e-6)


def test_without_dropout_x_itself_is_returned_and_nothing_is_drawn() -> None:
    x, before = torch.randn(5, 7), torch.get_rng_state()
    assert dropped(x, 0.0) is x and dropped(x, 0.3, training=False) is x
    assert Dropout(0.3).eval()(x) is x
    assert torch.equal(torch.get_rng_state(), before)


def test_extreme_rates_and_wrong_ones() -> None:
    assert torch.equal(dropped(torch.ones(9), 1.0), torch.zeros(9))
    assert dropped(torch.ones(0, 3), 0.5).shape == (0, 3)
    with pytest.raises(ValueError, match="dropout probability"):
        Dropout(1.5)


def test_draws_come_from_the_default_generator_and_are_repeated_from_its_state() -> None:
    module, x = Dropout(0.4), torch.ones(SHAPE)
    torch.manual_seed(3)
    first, state = module(x), torch.get_rng_state()
    second = module(x)
    assert not torch.equal(first, second)
    torch.set_rng_state(state)
    assert torch.equal(module(x), second)
    torch.manual_seed(3)
    assert torch.equal(module(x), first)


def test_the_gradient_has_the_factors_of_the_output() -> None:
    x = torch.randn(SHAPE, requires_grad=True)
    out = dropped(x, 0.3)
    grad = torch.randn(SHAPE)
    out.backward(grad)
    factors = (out / x).detach()
    torch.testing.assert_close(x.grad, grad * factors)
    assert ((x.grad == 0) == (out == 0)).all()


COMPILED = """
import sys, torch
from attnlab.kernels.dropout import dropped

def twice(x, rate):
    return dropped(dropped(x, rate).relu(), rate)

x = torch.ones(int(sys.argv[2]), int(sys.argv[3]), requires_grad=True)
found = []
for function in (twice, torch.compile(twice, fullgraph=True)):
    torch.manual_seed(0)
    out = function(x, 0.3)
    found += [out.detach(), *torch.autograd.grad(out.sum(), x)]
torch.save(found, sys.argv[1])
"""


@pytest.mark.slow
def test_compiled_draws_are_the_eager_ones(tmp_path: Path) -> None:
    """Two draws are neither merged nor repeated in the backward pass.

    In a process of its own: torch.compile cannot trace the shape checks of conftest.py.
    """
    file, sizes = tmp_path / "out.pt", map(str, SHAPE)
    subprocess.run([sys.executable, "-c", COMPILED, file, *sizes], env=environment(), check=True, timeout=240)
    eager, eager_slope, out, slope = torch.load(file)
    torch.testing.assert_close(out, eager)
    torch.testing.assert_close(slope, eager_slope)
    assert_share(out == 0, 1 - 0.7**2)


@requires_gpu
def test_on_a_gpu_dropout_is_the_fused_one_of_torch() -> None:
    x = torch.ones(SHAPE, device="cuda")
    torch.manual_seed(0)
    out = dropped(x, 0.3)
    torch.manual_seed(0)
    assert torch.equal(out, F.dropout(x, 0.3))


@pytest.mark.parametrize("rate", [-0.1, 1.1, math.nan])
def test_a_rate_outside_0_to_1_is_refused(rate: float) -> None:
    for training in (True, False):
        with pytest.raises(ValueError, match=rf"rate={rate}: expected a number from 0 to 1"):
            dropped(torch.ones(4), rate, training)
