"""Estimates how many runs fit into memory together, from a training step of one run."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from attnlab.config.schema import Config
from attnlab.data.batch_order import BatchOrder
from attnlab.data.examples import Examples
from attnlab.launch.pack.network_stack import NetworkStack
from attnlab.learn.callbacks import preserved_rng
from attnlab.learn.devices import memory_use
from attnlab.learn.evaluator import precision_context
from attnlab.learn.objectives import objective_for
from attnlab.run.build_runtime import make_network
from attnlab.tasks.base import Prepared

SHARE = 0.8
"""of the free memory that runs may use; evaluations and fragmentation need the rest"""
STATES = 3
"""copies of the parameters during training: gradients and two moments"""


def most_members(config: Config, prepared: Prepared[Examples], order: BatchOrder, device: torch.device) -> int:
    """Returns how many runs fit into the free memory, from a step of one run on the longest examples.

    The random states are restored.
    """
    examples = prepared.subsets["train"]
    size = len(order[0])
    numbers = order[0] if examples.lengths is None else np.argsort(examples.lengths, kind="stable")[-size:]
    with preserved_rng():
        stack = NetworkStack([make_network(config, prepared.spec).to(device)], objective_for(prepared.spec))
        batch = examples.batch(np.sort(numbers)).to(device).pieces(config.train.max_tokens)[-1]

        def losses() -> Tensor:
            with precision_context(config.train.precision, device):
                loss, penalty = stack.of_batch(batch)
            return (loss + penalty).sum()

        step = _peak_on_gpu(losses, device) if device.type == "cuda" else _peak_on_cpu(losses)
    each = step + STATES * stack.flat.numel() * stack.flat.element_size()
    return max(1, int(SHARE * memory_use.free_memory_bytes(device) / each))


def _peak_on_gpu(losses: Callable[[], Tensor], device: torch.device) -> int:
    memory_use.reset_peak_memory(device)
    before = memory_use.peak_memory_bytes(device)
    losses().backward()
    peak = memory_use.peak_memory_bytes(device) - before
    memory_use.reset_peak_memory(device)
    return peak


def _peak_on_cpu(losses: Callable[[], Tensor]) -> int:
    """Twice the size of the tensors saved for the backward pass, since their gradients need as much.

    The memory use of the process cannot be used: it may include memory that earlier jobs have freed.
    """
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        losses()
    return 2 * sum(kept.values())
