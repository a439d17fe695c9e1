"""A step as one compiled graph (torch.compile): forward and, by AOTAutograd, backward.

Only what is computed from tensors belongs in it; random tokens, pieces of a batch and what is read by Python stay
outside. Every new shape is compiled anew, so lengths should be padded to few sizes.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

GRAPHS = 1024
"""graphs one function may have in a process: shapes x settings of a sweep's jobs; equal ones are shared by the jobs"""

SAFE_ON_A_CPU = {"cpp.simdlen": 1}
"""of inductor: no vector instructions of its own. With them torch 2.13 sums rows whose number is no multiple of the
vector width into the wrong places, and beyond the end of memory (pytorch issue 196681; met in sort-of-CLEVR's step)"""

Tensors = tuple[Tensor, ...]


def compiled(
    function: Callable[..., Tensors], device: torch.device, backend: str = "inductor"
) -> Callable[..., Tensors]:
    """The function compiled as one graph when it is first called, and again for every new shape.

    On a GPU the graph is replayed as a CUDA graph. What a call gives is then copied out of the memory that the next
    call uses again; gradients of a backward pass through it stay there: see `OwnGradients`.

    Args:
        function: of modules, tensors and objects that hold tensors; gives a tuple of tensors.
        backend: of torch.compile.

    Raises (when it is called):
        torch._dynamo.exc.Unsupported: the function is not one graph; the message names the line.
    """
    config = torch._dynamo.config
    for name in ("recompile_limit", "accumulated_recompile_limit"):
        # torch 2.6 knows the older names alone
        known = name if hasattr(config, name) else name.replace("recompile_limit", "cache_size_limit")
        setattr(config, known, GRAPHS)
    build = lambda **how: torch.compile(function, fullgraph=True, dynamic=False, backend=backend, **how)  # noqa: E731
    if backend != "inductor":
        return build()
    if device.type != "cuda":
        return build(options=SAFE_ON_A_CPU)
    graph = build(mode="reduce-overhead")

    def step(*given: object) -> Tensors:
        torch.compiler.cudagraph_mark_step_begin()
        return tuple(x.clone() for x in graph(*given))

    return step


class OwnGradients:
    """Gradients in memory of their own, to which a CUDA graph's are added: its next run overwrites its own.

    Call it after every backward pass, and set gradients to zero rather than to None.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.foreign = list(parameters)

    def __call__(self) -> None:
        for parameter in self.foreign:
            if parameter.grad is not None:
                parameter.grad = parameter.grad.clone()
        self.foreign = [parameter for parameter in self.foreign if parameter.grad is None]
