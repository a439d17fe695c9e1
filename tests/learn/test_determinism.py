"""Equal seeds give equal numbers on a GPU: nothing here uses an operation without a deterministic kernel there.

A stand-in on the CPU (tests/support/strict_mode.py) refuses what a GPU would; tests for GPUs:
tests/attention/test_gpu_attention.py.
"""

from collections.abc import Callable

import pytest
import torch
from support.model_cases import SPECS, Case, apply, every_attention, ignore_slow_fallback, network_of
from support.random_batches import drawn_batch
from support.strict_mode import StrictMode
from support.tensors import draw, masks
from torch import Tensor

from attnlab.learn.devices import device_choice
from attnlab.learn.evaluator import evaluating
from attnlab.tasks.kinds.base import kind_of

LENGTH = 130
"""longer than every chunk and block"""


@pytest.mark.parametrize(
    "refused",
    [
        lambda x: x.cumsum(1),
        lambda x: x.cumprod(1),
        lambda x: torch.nn.functional.cross_entropy(x[None], torch.zeros(1, 4, dtype=torch.long)),
        lambda x: x.gather(0, torch.zeros(2, 4, dtype=torch.long)),
        lambda x: torch.nn.functional.interpolate(x[None], 8, mode="linear"),
    ],
)
def test_the_stand_in_refuses_what_a_gpu_does(refused: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(RuntimeError, match="deterministic"), StrictMode():
        refused(draw(3, 4).requires_grad_()).sum().backward()


@every_attention("determinism", normalized=False)
def test_no_mechanism_needs_an_operation_without_determinism(case: Case, mode: str) -> None:
    attention = case.make().train()
    # BigBird is sparse above this length
    length = max(LENGTH, getattr(attention, "full_length", 0) + 1)
    x, memory, mask = draw(2, length, 8).requires_grad_(), draw(2, length, 8), masks([length, 3], length)
    with StrictMode():
        out, penalty = apply(attention, mode, x, memory, mask)
        (out.sum() + penalty).backward()
    assert x.grad is not None


@ignore_slow_fallback
@pytest.mark.parametrize("task", SPECS)
def test_no_training_step_needs_one(task: str) -> None:
    """And the network's answers."""
    network = network_of("linear_l2_ortho", task).train()
    batch, objective = drawn_batch(task), kind_of(SPECS[task]).loss
    with StrictMode():
        loss, penalty = objective(network, batch)
        (loss + penalty).backward()
        with evaluating(network):
            assert len(kind_of(SPECS[task]).predict(network, batch)) == 3
            assert kind_of(SPECS[task]).scores(network, batch, 6)


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """torch that sees a GPU; returns the calls that set deterministic kernels."""
    calls: list[tuple] = []
    monkeypatch.setattr(device_choice.torch, "use_deterministic_algorithms", lambda *a, **k: calls.append((a, k)))
    monkeypatch.setattr(device_choice.torch, "are_deterministic_algorithms_enabled", lambda: bool(calls))
    monkeypatch.setattr(device_choice.torch.utils.deterministic, "fill_uninitialized_memory", True)
    monkeypatch.setattr(device_choice.torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(device_choice.torch.cuda, "is_available", lambda: True)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    return calls


def test_a_gpu_is_strict_unless_the_run_says_otherwise(on_a_gpu: list[tuple]) -> None:
    """No warnings only: fused attention would keep another kernel for its gradients. The next job inherits nothing."""
    device_choice.choose_device("cpu", 1)
    assert on_a_gpu == []
    for deterministic in (True, False):
        device_choice.choose_device("cuda", 1, deterministic=deterministic)
    device_choice.choose_device("cuda", 1)
    device_choice.choose_device("cpu", 1)
    assert on_a_gpu == [((wanted,), {}) for wanted in (True, False, True, False)]
    assert device_choice.os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not torch.utils.deterministic.fill_uninitialized_memory


def test_a_workspace_of_cublas_that_is_not_deterministic_is_refused(
    on_a_gpu: list[tuple], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    with pytest.raises(
        device_choice.DeviceError, match=r"CUBLAS_WORKSPACE_CONFIG=:0:0: equal seeds.*trainer\.deterministic=false"
    ):
        device_choice.choose_device("cuda", 1)
    device_choice.choose_device("cuda", 1, deterministic=False)
    assert on_a_gpu == []
