"""Statistics of the attentions of a network on some examples, as arrays for figures (`analysis.summary_types`).

Cost: a forward pass over the examples, and one over the example in maps. Locality needs the attention weights of all
examples; it computes them in pieces of about half a gigabyte (or of one example, where it needs more).
"""

import textwrap
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor, nn

from attnlab.analysis.attention_labels import PositionLabels, is_cross
from attnlab.analysis.attention_tensors import Diagnosis, diagnose
from attnlab.analysis.summary_types import MOST_POSITIONS, AttentionSummary, Locality, Maps, Norms
from attnlab.config.schema import Backbone, Config
from attnlab.data.batch import Batch, SequenceBatch
from attnlab.data.examples import Examples
from attnlab.learn.evaluator import precision_context
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.kinds.base import kind_of

QUANTITIES = ("norms", "values", "weights", "locality")
MOST_WEIGHTS = 2**27
"""limit of attention weights in memory, over all attentions"""
_ROUNDING = 0.02
"""difference from 1 of a sum of weights that half precision may cause"""
_OF_ALL = {"norms": "norms", "values": "values", "locality": "weights"}
"""quantities over all examples, and the quantities of `diagnose` that they are computed from"""


@dataclass(frozen=True, kw_only=True)
class DiagnosedExamples:
    """Examples of a subset, the first of which is shown in maps, and the names of network and weights.

    label: the network (`linear, seed 0`); weights: its weights (`step 3000`).
    """

    task: Task
    prepared: Prepared
    subset: str
    numbers: np.ndarray
    label: str
    weights: str

    @property
    def shown(self) -> str:
        """Number and text of the example in maps."""
        number = int(self.numbers[0])
        text = " ".join(self.task.example(self.prepared, self.subset, number).split())
        return f"example {number} of {self.subset}: {textwrap.shorten(text, 110, placeholder=' ...')}"


def choose(examples: Examples, wanted: int, example: int | None = None) -> np.ndarray:
    """Numbers of `wanted` examples (or all, if there are fewer) at even distances.

    The first is for maps: `example`, else an example of median length.
    """
    size = len(examples)
    numbers = np.arange(min(size, wanted)) * size // min(size, wanted)
    if example is not None:
        return np.concatenate(([example], numbers[numbers != example]))[: len(numbers)]
    if examples.lengths is None:
        return numbers
    middle = np.argsort(np.asarray(examples.lengths)[numbers], kind="stable")[len(numbers) // 2]
    return np.concatenate((numbers[[middle]], np.delete(numbers, middle)))


def summarise_attention(
    network: nn.Module, config: Config, chosen: DiagnosedExamples, quantities: Collection[str]
) -> AttentionSummary:
    """Statistics of the attentions on some examples: some of `QUANTITIES`.

    Maps of values are a mean over the examples where all have the same length, else of one example. Maps of weights
    are always of one example.
    """
    device = next(network.parameters()).device
    examples, objective = chosen.prepared.subsets[chosen.subset], kind_of(chosen.prepared.spec).loss
    whole, first = (examples.batch(numbers).to(device) for numbers in (chosen.numbers, chosen.numbers[:1]))
    mean = all(bool((extent == extent[0]).all()) for extent in whole.extents)
    of_all = {_OF_ALL[name] for name in quantities if name in _OF_ALL and (mean or name != "values")}
    of_single_examples = {name for name in quantities if name == "weights" or (name == "values" and not mean)}
    sums, single = _Sums(), {}
    with precision_context(config.train.precision, device):
        for piece in whole.pieces(_most_tokens(config.backbone, whole)) if of_all else ():
            for name, item in diagnose(network, piece, objective, of_all).items():
                sums.add(name, item, piece)
        if of_single_examples:
            single = diagnose(network, first, objective, of_single_examples)
    labels = PositionLabels(chosen.task.token_names(), first, config.backbone)
    # over several examples positions have no tokens in common
    values = {}
    for name, (total, n) in sums.cosines.items():
        names = labels.of_patches(n)
        values[name] = Maps(total / len(whole), names, names, (n, n))
    weights = {}
    for name, item in single.items():
        if item.values is not None:
            n = item.values.shape[2]
            names = labels.of_keys(name, n)
            values[name] = Maps(_cosines(item.values[0]), names, names, (n, n))
        if item.weights is not None:
            weights[name] = _weight_maps(name, item.weights[0], item.causal, labels)
    return AttentionSummary(
        label=chosen.label,
        about=f"{len(whole)} examples of {chosen.subset}, {chosen.weights}",
        normalization=config.model.normalization.kind,
        shown=chosen.shown,
        values_of=f"mean over {len(whole)} examples of {chosen.subset}" if mean else chosen.shown,
        norms=sums.norms,
        values=values,
        weights=weights,
        locality=sums.locality,
    )


@dataclass
class _Sums:
    """Statistics summed over the pieces of a batch, by attention."""

    norms: dict[str, Norms] = field(default_factory=dict)
    cosines: dict[str, tuple[np.ndarray, int]] = field(default_factory=dict)
    locality: dict[str, Locality] = field(default_factory=dict)

    def add(self, name: str, item: Diagnosis, piece: Batch) -> None:
        """Add one attention's tensors for a piece."""
        keys, queries = item.mask, real_queries(name, item, piece)
        if item.query_norms is not None and item.key_norms is not None:
            new = Norms(_by_head(item.query_norms, queries), _by_head(item.key_norms, keys))
            self.norms[name] = self.norms[name].joined(new) if name in self.norms else new
        if item.values is not None:
            total, _ = self.cosines.get(name, (0.0, 0))
            self.cosines[name] = total + _cosines(item.values).sum(0), item.values.shape[2]
        if item.weights is not None and not is_cross(name):
            locality = self.locality.setdefault(name, Locality())
            for number, weights in enumerate(item.weights):
                n = weights.shape[-1] if keys is None else int(keys[number].sum())
                locality.add(_array(weights[:, :n, :n]), item.causal)


def real_queries(name: str, item: Diagnosis, batch: Batch) -> Bool[Tensor, "B N"] | None:
    """The real queries of an attention; None = all."""
    return batch.target_mask if is_cross(name) and isinstance(batch, SequenceBatch) else item.mask


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()


def _by_head(norms: Tensor, mask: Tensor | None) -> list[np.ndarray]:
    """Norms [B, P, N] at real positions, head by head."""
    real = slice(None) if mask is None else mask.cpu().numpy()
    return [_array(head)[real].reshape(-1) for head in norms.unbind(1)]


def _cosines(values: Tensor) -> np.ndarray:
    """Cosines of the first positions of values [..., M, D]."""
    return cosines(_array(values[..., :MOST_POSITIONS, :]))


def _most_tokens(backbone: Backbone, batch: Batch) -> int:
    """Limit of padded tokens in a piece: an attention has heads x tokens x length weights, a layer at most three."""
    longest = int(torch.stack(batch.extents).sum(0).max())
    layers = max(backbone.n_layers, backbone.n_decoder_layers or 0)
    return max(1, MOST_WEIGHTS // (3 * layers * backbone.n_heads * longest))


def _weight_maps(name: str, weights: Tensor, causal: bool, labels: PositionLabels) -> Maps:
    """Maps of queries by keys, from weights [H, N, M] times the number of keys that each query sees.

    Where the weights of a query do not sum to 1, they are divided by the sum of their sizes first, so that 1 is uniform
    attention for every mechanism.
    """
    n, m = weights.shape[1:]
    maps, ends = _array(weights), None
    sums = maps.sum(-1)
    if np.abs(sums - 1).max(initial=0.0) > _ROUNDING:
        ends = float(sums.min()), float(sums.max())
        sizes = np.abs(maps).sum(-1, keepdims=True)
        maps = np.divide(maps, sizes, out=np.zeros_like(maps), where=sizes > 0)
    seen = np.arange(1, n + 1)[:, None] + (m - n) if causal else np.full((n, 1), m)
    heads = (maps * seen)[:, :MOST_POSITIONS, :MOST_POSITIONS]
    return Maps(heads, labels.of_queries(name, n), labels.of_keys(name, m), (n, m), ends)


def cosines(values: np.ndarray) -> np.ndarray:
    """Cosine similarity of all pairs of positions: [..., N, D] -> [..., N, N]; 0 with a vector of zeros."""
    lengths = np.linalg.norm(values, axis=-1, keepdims=True)
    unit = np.divide(values, lengths, out=np.zeros_like(values), where=lengths > 0)
    return unit @ unit.swapaxes(-1, -2)
