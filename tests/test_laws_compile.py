"""Law 5: forward passes have no graph break and no hidden state, and work on stacked parameters under vmap."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from support.compile_networks import arguments
from support.law_exemptions import EXEMPTIONS
from support.model_cases import (
    TASKS,
    distinct_for,
    every_network,
    ignore_slow_fallback,
    network_of,
    one_of_each_mechanism,
)
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap


def excuse(law: str, network: nn.Module) -> str | None:
    """Why a network is excused from a law: one of its mechanisms is."""
    paths = {f"{type(module).__module__}.{type(module).__name__}" for module in network.modules()}
    return next((reason for (name, path), reason in EXEMPTIONS.items() if name == law and path in paths), None)


def test_no_sequence_network_has_a_graph_break() -> None:
    check_tracing("scan", distinct_for("scan"))


def test_no_image_network_has_a_graph_break() -> None:
    """Image networks have the layers of sequence networks, without a mask."""
    check_tracing("sort_of_clevr", one_of_each_mechanism("sort_of_clevr"))


@pytest.mark.slow
def test_no_image_network_of_any_model_has_a_graph_break() -> None:
    check_tracing("sort_of_clevr", distinct_for("sort_of_clevr"))


def check_tracing(task: str, models: Sequence[str]) -> None:
    """Compiles the networks in a process without shape checks (see tests/support/compile_networks.py)."""
    models = [model for model in models if excuse("compile", network_of(model, task)) is None]
    line = [sys.executable, "-m", "support.compile_networks", task, *models]
    done = subprocess.run(line, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {line.split()[0] for line in lines} == set(models)
    assert not [line for line in lines if not line.endswith(" ok")]


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
    if reason := excuse("vmap", networks[0]):
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


@pytest.mark.parametrize(("model", "task"), [(model, task) for task in TASKS for model in distinct_for(task)])
def test_a_forward_leaves_no_trace(model: str, task: str) -> None:
    """The same call twice gives the same, in training mode too, and no parameter or buffer is changed."""
    network, given = network_of(model, task).train(), arguments(task)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    first, second = network(*given), network(*given)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
