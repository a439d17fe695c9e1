"""Attention on a GPU: the numbers of the CPU, the same at every call, and batches beyond a kernel's limit.

Stand-ins on the CPU: test_determinism.py, test_fused_attention.py, test_run_messages.py.
"""

import importlib
import math
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch
from support.gpu import requires_gpu
from support.model_cases import RECURRENT, SPECS, Case, apply, every_attention, network_of
from support.random_batches import drawn_batch
from support.tensors import assert_same, draw, gradients, masks
from torch import nn

from attnlab.attention.core.softmax_core import fused_softmax, kept, softmax_weights
from attnlab.config.schema import Optim
from attnlab.learn.devices.device_choice import choose_device
from attnlab.learn.optimizers import make_optimizer
from attnlab.tasks.kinds.base import kind_of

pytestmark = requires_gpu
LENGTH = 500
"""longer than every chunk and block, and than the length from which BigBird is sparse"""


@pytest.fixture(autouse=True)
def gpu() -> Iterator[torch.device]:
    """The GPU as runs use it: in strict deterministic mode."""
    yield choose_device("cuda", 1)
    torch.use_deterministic_algorithms(False)


@every_attention("determinism", normalized=False)
def test_every_mechanism_has_the_gradients_of_the_cpu(case: Case, mode: str, gpu: torch.device) -> None:
    attention, x, memory = case.make(), draw(2, LENGTH, 8).requires_grad_(), draw(2, LENGTH, 8)
    mask, result = masks([LENGTH, 70], LENGTH), []
    for device in (torch.device("cpu"), gpu, gpu):
        there = attention.to(device)
        inputs = [tensor.detach().to(device) for tensor in (x, memory)]
        inputs[0].requires_grad_()
        out, penalty = apply(there, mode, *inputs, mask.to(device))
        named = gradients(out.square().sum() + penalty, there, x=inputs[0]) | {"out": out.detach()}
        result.append({name: value.cpu() for name, value in named.items()})
    assert_same(result[1], result[0], 1e-8)
    assert all(torch.equal(value, result[2][name]) for name, value in result[1].items())


@pytest.mark.skipif(find_spec("fla") is None, reason="fla-core is not installed")
@pytest.mark.parametrize("name", RECURRENT)
def test_kernels_give_the_numbers_of_the_recurrence(name: str, gpu: torch.device) -> None:
    """As far as bfloat16 and TensorFloat-32 can."""
    slow, fast = (RECURRENT[name](128, 2, fast=on).to(gpu) for on in (False, True))
    fast.load_state_dict(slow.state_dict())
    x = torch.randn(2, LENGTH, 128, device=gpu)
    torch.testing.assert_close(fast(x, causal=True)[0], slow(x, causal=True)[0], rtol=0.05, atol=0.05)


@pytest.mark.parametrize("task", SPECS)
def test_a_training_step_is_the_same_at_every_call(task: str, gpu: torch.device) -> None:
    network, batch = network_of("linear_l2_ortho", task).float().train().to(gpu), drawn_batch(task, 90).to(gpu)
    actual = [gradients(sum(kind_of(SPECS[task]).loss(network, batch)), network) for _ in range(2)]
    assert all(torch.equal(value, actual[1][name]) for name, value in actual[0].items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_softmax_has_the_same_gradients_at_every_call(dtype: torch.dtype, gpu: torch.device) -> None:
    """At a length at which several blocks of queries add to the gradient of a key."""
    inputs = [torch.randn(2, 4, 2048, 64, device=gpu, dtype=dtype).requires_grad_() for _ in range(3)]
    mask = masks([2048, 1500], 2048).to(gpu)
    for keep, causal in ((mask, False), (None, True), (None, False)):
        first, *others = (
            torch.autograd.grad(fused_softmax(*inputs, keep, causal, 0.0).square().sum(), inputs) for _ in range(4)
        )
        assert all(map(torch.equal, first, other) for other in others)


def test_a_mask_gives_no_nan(gpu: torch.device) -> None:
    """The input of pytorch issue 196678, for which the kernel of cuDNN has NaN in the gradient of queries."""
    length, width = 704, 64
    q, k = (0.1 * torch.randn(1, 1, length, width, device=gpu, dtype=torch.bfloat16) for _ in range(2))
    q[..., 0], k[..., 0] = 1.0, -120 * math.sqrt(width)
    inputs = [q, k, torch.randn_like(q)]
    mask = torch.ones(1, length, dtype=torch.bool, device=gpu)
    actual = fused_softmax(*(x.requires_grad_() for x in inputs), mask, False)
    assert all(slope.isfinite().all() for slope in torch.autograd.grad(actual.float().sum(), inputs))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_batch_beyond_the_limit_of_a_kernel(dtype: torch.dtype, gpu: torch.device) -> None:
    inputs = [torch.randn(70_000, 1, 3, 8, device=gpu, dtype=dtype).requires_grad_() for _ in range(3)]
    mask = masks([3, 2], 3).to(gpu).repeat(35_000, 1)
    result = fused_softmax(*inputs, mask, False)
    q, k, v = (x.float() for x in inputs)
    scores = q @ k.transpose(-1, -2) * 8**-0.5
    torch.testing.assert_close(
        result.float(), softmax_weights(scores, kept(scores, mask, False)) @ v, rtol=2e-2, atol=2e-2
    )
    assert all(slope.isfinite().all() for slope in torch.autograd.grad(result.float().sum(), inputs))


def test_without_the_fused_form_parameters_are_updated_together(
    gpu: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    # by its name: torch deletes the module from its package
    adam, called = importlib.import_module("torch.optim.adam"), []
    together = adam._multi_tensor_adam
    monkeypatch.setattr(adam, "_multi_tensor_adam", lambda *a, **k: called.append(1) or together(*a, **k))
    weights = [nn.Parameter(torch.ones(3, device=gpu)) for _ in range(2)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    make_optimizer(Optim(lr=0.1), weights, fused=False).step()
    assert called == [1]
