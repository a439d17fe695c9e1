"""Law 5: forward passes and gradients work on stacked parameters under vmap, as packed runs need."""

from collections.abc import Callable, Mapping

import pytest
import torch
from support.compile_networks import arguments
from support.law_exemptions import network_exemption
from support.model_cases import (
    distinct_for,
    every_network,
    ignore_slow_fallback,
    network_of,
)
from torch import Tensor
from torch.func import functional_call, grad, stack_module_state, vmap

# for packed runs alone
pytestmark = pytest.mark.slow


@ignore_slow_fallback
@every_network()
def test_stacked_sequence_networks_equal_single_ones(model: str, positions: str) -> None:
    check_stacking(model, "scan", positions)


@ignore_slow_fallback
@pytest.mark.parametrize("model", distinct_for("sort_of_clevr"))
def test_stacked_image_networks_equal_single_ones(model: str) -> None:
    check_stacking(model, "sort_of_clevr", "sinusoidal")


def check_stacking(model: str, task: str, positions: str) -> None:
    """Three stacked seeds of a network equal the single networks, forward and gradients."""
    networks, given = [network_of(model, task, seed, positions=positions) for seed in range(3)], arguments(task)
    if reason := network_exemption("vmap", networks[0]):
        pytest.skip(f"exempt from the law of vmap: {reason}")

    def loss(parameters: Mapping[str, Tensor]) -> Tensor:
        logits, penalty = functional_call(networks[0], dict(parameters), given)
        return logits.square().mean() + penalty

    stacked, _ = stack_module_state(networks)
    compare_with_loop(loss, stacked)
    compare_with_loop(grad(loss), stacked)


def compare_with_loop(function: Callable[[Mapping[str, Tensor]], object], stacked: Mapping[str, Tensor]) -> None:
    """vmap over the first axis of every parameter gives what one network after another gives."""
    together = vmap(function)(stacked)
    for index in range(3):
        alone = function({name: value[index].detach() for name, value in stacked.items()})
        pairs = [(together, alone)] if isinstance(alone, Tensor) else [(together[name], alone[name]) for name in alone]
        for found, expected in pairs:
            torch.testing.assert_close(found[index], expected, rtol=1e-6, atol=1e-9)
