"""Compiles networks; run by test_laws_compile.py in a separate process.

There the shape checks of tests/conftest.py are not installed: torch.compile cannot trace through them, and nobody but
the tests runs with them. Arguments are `task:model`, with decoder_only as the task of SCAN with one decoder. Prints one
line a network: its argument and positions, then "ok" or what went wrong.
"""

import sys

import torch
from torch import Tensor, nn

from attnlab.config.targets import signature_of
from support.model_cases import SPECS, model_of, network_of, positions_of
from support.tensors import masks


def arguments(task: str) -> tuple[Tensor, ...]:
    """Returns the inputs of the networks of a task."""
    if task == "sort_of_clevr":
        return torch.randint(256, (3, *SPECS[task].image_shape)).byte(), torch.randint(2, (3, 4)).byte()
    return torch.randint(7, (3, 4)), masks([4, 2, 1], 4), torch.randint(6, (3, 5)), masks([5, 1, 3], 5)


def compiled_problem(network: nn.Module, inputs: tuple[Tensor, ...]) -> str:
    """Why the network does not compile to one graph with the same results; "ok" if it does."""
    torch.compiler.reset()
    try:
        result = torch.compile(network, fullgraph=True, backend="eager")(*inputs)
        for item, other in zip(result, network(*inputs), strict=True):
            torch.testing.assert_close(item, other, rtol=1e-12, atol=1e-12)
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:500]
    return "ok"


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    for name in names:
        task, model = name.split(":")
        # One layer of each group: more of them only take longer to trace.
        groups = model_of(model).encoder
        if task == "decoder_only":
            both = all(signature_of(group.attention).can("supports_bidirectional") for group in groups)
            wiring = {"architecture": "decoder_only", "prefix": "bidirectional" if both else "causal"}
            network = network_of(model, "scan", n_layers=len(groups), **wiring)
            print(name, compiled_problem(network, arguments("scan")), flush=True)
            continue
        schemes = positions_of(model) if task == "scan" else ["sinusoidal"]
        for positions in schemes if len(schemes) == 1 else set(schemes) - {"none"}:
            network = network_of(model, task, positions=positions, n_layers=len(groups))
            print(name, positions, compiled_problem(network, arguments(task)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
