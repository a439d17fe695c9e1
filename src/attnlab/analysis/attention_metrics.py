"""Numbers of the attentions of a network, for curves and reports.

    <attention>/query_norm      L2 norm of projected queries before any normalisation: mean over heads, real positions
    <attention>/key_norm        the same of keys
    <attention>/value_cosine    cosine of the values of two different real positions of a sequence, 0 for a value of no
                                length: mean over pairs, then over heads and over sequences of at least two positions
    <attention>/largest_weight  largest weight of a query, divided by the mean of its weights: 1 is a plain mean; mean
                                over heads and real queries
    <attention>/local_weight    share of a query's weight in the tenth of the positions that is nearest to it: mean
                                over heads and real queries; of self-attention only

By the first three Park & Kim 2024 (figures 2, 3 and 6) explain failed trials; Qin et al. 2022 (section 3.2) compare how
local attentions are. Weights count by their size, as those of NormAttention can be negative.

Cost: a forward pass over the examples, and memory for queries, keys and values of all layers, and for weights; these
are left out where an example has more than 512 positions.
"""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlab.analysis.attention_labels import is_cross, metric_names
from attnlab.analysis.attention_tensors import Diagnosis, diagnose
from attnlab.analysis.compute_summary import choose, real_queries
from attnlab.analysis.summary_types import RATIOS, neighbourhood_shares
from attnlab.config.schema import Train
from attnlab.data.batch import Batch
from attnlab.data.examples import Examples
from attnlab.data.task_spec import TaskSpec
from attnlab.learn.evaluator import precision_context
from attnlab.tasks.kinds.base import kind_of

EXAMPLES = 64
LONGEST = 512
"""positions of an example, up to which its weights are computed"""
MOST_PAIRS = 2**20
"""limit of padded tokens times length in a piece whose weights are computed, for each head of each attention"""
NEAR = int(np.searchsorted(RATIOS, 0.1))
"""index of the neighbourhood of `local_weight` in `RATIOS`"""
Sums = dict[str, tuple[float, float]]
"""for each number a sum, and how many terms it has"""


def attention_metrics(network: nn.Module, examples: Examples, spec: TaskSpec, train: Train) -> dict[str, float]:
    """All numbers for every use of every attention, in evaluation mode; no random number is drawn.

    Of the examples 64 at even distances are read. Returns `layer_0/key_norm`, ... by the names of `metric_names`.
    """
    device, numbers, sums = next(network.parameters()).device, choose(examples, EXAMPLES), dict[str, Sums]()
    with precision_context(train.precision, device):
        for start in range(0, len(numbers), train.eval_batch_size):
            batch = examples.batch(numbers[start : start + train.eval_batch_size]).to(device)
            longest = max(int(extent.max()) for extent in batch.extents)
            wanted = ("norms", "values", "weights") if longest <= LONGEST else ("norms", "values")
            for piece in batch.pieces(MOST_PAIRS // longest) if "weights" in wanted else (batch,):
                for name, item in diagnose(network, piece, kind_of(spec).loss, wanted).items():
                    _add(sums.setdefault(name, {}), _sums(name, item, piece))
    named = metric_names(sums)
    return {
        f"{named[name]}/{metric}": total / count
        for name, of_attention in sums.items()
        for metric, (total, count) in of_attention.items()
        if count
    }


def _add(sums: Sums, more: Sums) -> None:
    """Add the sums of a piece to those of the pieces before."""
    for metric, (total, count) in more.items():
        before, terms = sums.get(metric, (0.0, 0.0))
        sums[metric] = before + total, terms + count


def _sums(name: str, item: Diagnosis, batch: Batch) -> Sums:
    """The sums of one attention over a batch, in float64."""
    assert item.query_norms is not None and item.key_norms is not None and item.values is not None
    queries, keys = (
        torch.ones_like(norms[:, 0], dtype=torch.bool) if mask is None else mask
        for norms, mask in ((item.query_norms, real_queries(name, item, batch)), (item.key_norms, item.mask))
    )
    sums = {
        "query_norm": _masked_sum(item.query_norms, queries),
        "key_norm": _masked_sum(item.key_norms, keys),
        "value_cosine": _cosines(item.values, keys),
    }
    if item.weights is not None:
        sizes = item.weights.double().abs()
        sums["largest_weight"] = _largest(sizes, queries, keys, item.causal)
        if not is_cross(name):
            sums["local_weight"] = _local(sizes, keys)
    return sums


def _masked_sum(numbers: Float[Tensor, "B P N"], mask: Bool[Tensor, "B N"]) -> tuple[float, float]:
    """Sum over heads and real positions, and how many these are."""
    return float((numbers.double() * mask[:, None]).sum()), float(mask.sum() * numbers.shape[1])


def _cosines(values: Float[Tensor, "B V M D"], keys: Bool[Tensor, "B M"]) -> tuple[float, float]:
    """Sum of the mean cosines by head and sequence."""
    unit = F.normalize(values.double(), dim=-1) * keys[:, None, :, None]
    # the sum over all pairs, less the pairs of a position with itself
    cosines = unit.sum(-2).square().sum(-1) - unit.square().sum((-1, -2))
    lengths = keys.sum(-1, keepdim=True)
    means = cosines / (lengths * (lengths - 1)).clamp(min=1)
    counted = (lengths > 1).expand_as(means)
    return float((means * counted).sum()), float(counted.sum())


def _largest(
    sizes: Float[Tensor, "B H N M"], queries: Bool[Tensor, "B N"], keys: Bool[Tensor, "B M"], causal: bool
) -> tuple[float, float]:
    """Sum of the largest over the mean weight of every real query with some weight."""
    sizes = sizes * keys[:, None, None, :]
    seen = keys[:, None, :].expand(-1, sizes.shape[2], -1)
    seen = (seen.tril() if causal else seen).sum(-1)[:, None]
    totals = sizes.sum(-1)
    counted = (totals > 0) & queries[:, None]
    ratios = torch.where(counted, sizes.amax(-1) * seen / totals.where(counted, 1.0), 0.0)
    return float(ratios.sum()), float(counted.sum())


def _local(sizes: Float[Tensor, "B H N N"], keys: Bool[Tensor, "B N"]) -> tuple[float, float]:
    """Sum of the near shares of every real query with some weight."""
    total, count = 0.0, 0
    for weights, real in zip(sizes.cpu().numpy(), keys.sum(-1).tolist(), strict=True):
        curve, rows = neighbourhood_shares(weights[:, :real, :real])
        total, count = total + float(curve[NEAR]) * rows, count + rows
    return total, float(count)
