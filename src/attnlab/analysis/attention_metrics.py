"""Numbers of the attentions of a network, for curves and reports: norms of keys and similarity of values, by which Park
& Kim 2024 (figures 2, 3 and 6) explain failed trials.

    <attention>/key_norm        L2 norm of projected keys, before any normalisation: mean over heads and real positions
    <attention>/value_cosine    cosine of the values of two different real positions of a sequence, 0 for a value of no
                                length: mean over pairs, then over heads and over sequences of at least two positions

Cost: a forward pass over the examples, and memory for queries, keys and values of all layers.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.analysis.attention_labels import metric_names
from attnlab.analysis.attention_tensors import Diagnosis, diagnose
from attnlab.analysis.compute_summary import choose
from attnlab.config.schema import Train
from attnlab.data.examples import Examples
from attnlab.data.task_spec import TaskSpec
from attnlab.learn.evaluator import precision_context
from attnlab.tasks.kinds.base import kind_of

EXAMPLES = 64


def attention_metrics(network: nn.Module, examples: Examples, spec: TaskSpec, train: Train) -> dict[str, float]:
    """Both numbers for every use of every attention, in evaluation mode; no random number is drawn.

    Of the examples 64 at even distances are read. Returns `layer_0/key_norm`, ... by the names of `metric_names`.
    """
    device, numbers, sums = next(network.parameters()).device, choose(examples, EXAMPLES), dict[str, Tensor]()
    with precision_context(train.precision, device):
        for start in range(0, len(numbers), train.eval_batch_size):
            batch = examples.batch(numbers[start : start + train.eval_batch_size]).to(device)
            for name, item in diagnose(network, batch, kind_of(spec).loss, ("norms", "values")).items():
                sums[name] = sums.get(name, 0) + _sums(item)
    named, metrics = metric_names(sums), dict[str, float]()
    for name, sums_of_metric in sums.items():
        norms, positions, cosines, sequences = sums_of_metric.tolist()
        if positions:
            metrics[f"{named[name]}/key_norm"] = norms / positions
        if sequences:
            metrics[f"{named[name]}/value_cosine"] = cosines / sequences
    return metrics


def _sums(item: Diagnosis) -> Float[Tensor, "4"]:
    """Sum and number of norms of keys, and of mean cosines of values by head and sequence, in float64."""
    assert item.key_norms is not None and item.values is not None
    norms, unit = item.key_norms.double(), F.normalize(item.values.double(), dim=-1)
    real = norms.new_ones(len(norms), 1, norms.shape[2]) if item.mask is None else item.mask[:, None].double()
    unit = unit * real[..., None]
    # the sum over all pairs, less the pairs of a position with itself
    cosines = unit.sum(-2).square().sum(-1) - unit.square().sum((-1, -2))
    lengths = real.sum(-1)
    means = cosines / (lengths * (lengths - 1)).clamp(min=1)
    counted = (lengths > 1).double().expand_as(means)
    return torch.stack(((norms * real).sum(), real.expand_as(norms).sum(), (means * counted).sum(), counted.sum()))
