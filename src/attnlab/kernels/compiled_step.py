"""A training step as one compiled graph (torch.compile): forward and, by AOTAutograd, backward.

The graph contains tensor operations only: masking tokens at random, cutting batches into pieces and reading values in
Python stay outside. Every new shape is compiled again, so lengths should be padded to few sizes.
"""

import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar, cast

import torch
from torch import Tensor

from attnlab.kernels.inductor_tiles import cpu_options

GRAPHS = 1024
"""limit of graphs a function and process: shapes x settings of a sweep's jobs; jobs share equal graphs"""

FIRST_ON_A_GPU = "2.9"
"""the first torch that leaves an operator out of a CUDA graph and records the rest (inductor's `graph_partition`, off
by default in 2.7 and 2.8). The chunked cross-entropy, which waits for the GPU, needs it: by their sources, torch 2.7
has no tag for such operators, and 2.8 gives up CUDA graphs for every step that has one"""

Tensors = TypeVar("Tensors", bound=tuple[Tensor, ...])


def compiled(
    function: Callable[..., Tensors], device: torch.device, backend: str = "inductor"
) -> Callable[..., Tensors]:
    """The function, compiled as one graph at the first call, and again for every new shape.

    On a GPU the graph is replayed as a CUDA graph, whose memory the next call overwrites. So results are copied;
    gradients of a backward pass are not: see `KeptGradients`.

    Args:
        function: takes modules, tensors and objects that hold tensors; returns a tuple of tensors.
        backend: of torch.compile.

    Raises (when called):
        torch._dynamo.exc.Unsupported: the function is not one graph; the message names the line.
    """
    # torch's own use of what it deprecates, at every diagonal
    warnings.filterwarnings("ignore", message=r".*torch\._prims_common\.check", category=FutureWarning)
    config = torch._dynamo.config
    for name in ("recompile_limit", "accumulated_recompile_limit"):
        # torch 2.6 knows only the older names
        known = name if hasattr(config, name) else name.replace("recompile_limit", "cache_size_limit")
        setattr(config, known, GRAPHS)
    build = partial(torch.compile, function, fullgraph=True, dynamic=False, backend=backend)
    if backend != "inductor":
        return build()
    if device.type != "cuda":
        return build(options=cpu_options())
    _recording.add(device)
    graph = build(mode="reduce-overhead")

    def step(*arguments: object) -> Tensors:
        torch.compiler.cudagraph_mark_step_begin()
        # as many tensors as the function returns
        return cast(Tensors, tuple(x.clone() for x in graph(*arguments)))

    return step


_recording: set[torch.device] = set()
"""GPUs of which this process records CUDA graphs"""


def drop_graphs() -> None:
    """Drops all compiled steps of this process if a GPU records CUDA graphs of them, which hold the memory of the
    network and the batches that they were recorded with. Steps on a CPU hold no memory, and stay.
    """
    if _recording:
        _recording.clear()
        torch.compiler.reset()


def compiler_failed(error: BaseException) -> bool:
    """Whether inductor ended with this error, as it does if a signal ends the C++ compiler."""
    return type(error).__module__.startswith("torch._inductor")


class KeptGradients:
    """Copies gradients out of the memory of a CUDA graph, which its next run overwrites.

    Call it after every backward pass, and set gradients to zero rather than to None: later gradients are then added to
    the copies.
    """

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        self.foreign = list(parameters)

    def __call__(self) -> None:
        for parameter in self.foreign:
            if parameter.grad is not None:
                parameter.grad = parameter.grad.clone()
        self.foreign = [parameter for parameter in self.foreign if parameter.grad is None]
