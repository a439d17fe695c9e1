"""Compiles training steps in a process without the shape checks of conftest.py, for test_compiled_step.py.

    python -m support.compile_steps <backend> scan/linear ...

It prints a line for each pair of task and model: its name, then "ok" or the problem.
"""

import sys

import torch
from torch import Tensor, nn

from attnlab.kernels.compiled_step import compiled
from attnlab.tasks.kinds.base import kind_of
from support.model_cases import SPECS, network_of
from support.random_batches import drawn_batch
from support.tensors import gradients


def compiled_problem(task: str, network: nn.Module, backend: str) -> str:
    """Why a step is not one graph with the losses and gradients of the eager one; "ok" if it is (by inductor, for two
    lengths: the second is compiled anew)."""
    objective = kind_of(SPECS[task]).loss
    step = compiled(objective, torch.device("cpu"), backend)
    try:
        for more in (0, 1) if backend == "inductor" else (0,):
            batch = drawn_batch(task, more)
            actual, expected = step(network, batch), objective(network, batch)
            compare(actual, expected, network)
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:500]
    return "ok"


def compare(actual: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor], network: nn.Module) -> None:
    """Loss, penalty and the gradients of their sum."""
    for item, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(item, other, rtol=1e-10, atol=1e-12)
    slopes = gradients(sum(expected), network)
    for name, value in gradients(sum(actual), network).items():
        torch.testing.assert_close(value, slopes[name], rtol=1e-8, atol=1e-10, msg=name)


def main(backend: str, pairs: list[str]) -> None:
    torch.set_num_threads(1)
    for pair in pairs:
        task, _, model = pair.partition("/")
        torch.compiler.reset()
        print(pair, compiled_problem(task, network_of(model, task, n_layers=1), backend), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
