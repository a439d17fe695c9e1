"""Law 5: a forward pass changes no buffer and no other state of a network."""

import pytest
import torch
from support.compile_networks import arguments
from support.model_cases import (
    TASKS,
    distinct_for,
    network_of,
)


@pytest.mark.parametrize(("model", "task"), [(model, task) for task in TASKS for model in distinct_for(task)])
def test_a_forward_leaves_no_trace(model: str, task: str) -> None:
    """The same call twice gives the same, in training mode too, and no parameter or buffer is changed."""
    network, inputs = network_of(model, task).train(), arguments(task)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    first, second = network(*inputs), network(*inputs)
    for item, other in zip(first, second, strict=True):
        assert torch.equal(item, other)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
