"""Evaluation of a network on one subset of a task, the same in training, after it, and in `evaluate.py`."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch import nn

from attnlab.data.examples import Examples
from attnlab.data.task_spec import TaskSpec
from attnlab.learn.example_scores import judge_for
from attnlab.learn.metrics import summarise

MIXED = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def precision_context(precision: str, device: torch.device) -> AbstractContextManager:
    """Autocast as in training."""
    if precision not in MIXED:
        return nullcontext()
    return torch.autocast(device_type=device.type, dtype=MIXED[precision])


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the network's mode is put back."""
    training = network.training
    network.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        network.train(training)


def evaluate(
    network: nn.Module,
    spec: TaskSpec,
    examples: Examples,
    *,
    batch_size: int,
    precision: str,
    decode_limit: int = 0,
    numbers: np.ndarray | None = None,
    tick: Callable[[int, int], None] = lambda done, size: None,
) -> tuple[dict[str, float], dict[str, int]]:
    """Metrics and counts of a subset.

    Args:
        batch_size: examples at a time; no effect on results but rounding.
        decode_limit: longest output, end token included (encoder_decoder only).
        numbers: evaluate these examples only.
        tick: called after each batch with the number of examples done and in all; may raise to stop.

    Returns:
        metrics without a prefix (`sequence_accuracy`, `length_30/sequence_accuracy`, `unary/accuracy`), and counts.
    """
    numbers = np.arange(len(examples)) if numbers is None else np.asarray(numbers)
    device = next(network.parameters()).device
    lengths = None if examples.lengths is None else np.asarray(examples.lengths)[numbers]
    # Outputs of one length end together, which keeps decoding steps and padding few.
    visit = np.arange(len(numbers)) if lengths is None else np.argsort(lengths, kind="stable")
    judge, records = judge_for(spec, decode_limit), {}
    with evaluating(network), precision_context(precision, device):
        for start in range(0, len(visit), batch_size):
            places = visit[start : start + batch_size]
            batch = examples.batch(numbers[places]).to(device)
            for name, values in judge(network, batch).items():
                values = values.cpu().numpy()
                records.setdefault(name, np.zeros(len(numbers), dtype=values.dtype))[places] = values
            tick(min(start + batch_size, len(visit)), len(visit))
    places_of = np.full(len(examples), -1)
    places_of[numbers] = np.arange(len(numbers))
    groups = {name: places_of[group][places_of[group] >= 0] for name, group in examples.groups.items()}
    return summarise(records, spec.metrics, groups, lengths, examples.length_bins)
