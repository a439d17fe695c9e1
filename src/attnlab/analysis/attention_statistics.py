"""From a network and a batch to the arrays that figures of its attentions show (`analysis.attention_arrays`).

Cost: a forward pass over the batch, and one over the example that maps show. Locality writes the attention weights of
the whole batch out, a piece of the batch at a time, so that about half a gigabyte of them is held at once (or those of
one example, where they are more).
"""

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isqrt

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.analysis.attention_arrays import Locality, Maps, Norms, Summary, cosines, is_cross
from attnlab.analysis.attention_diagnostics import Diagnosis, diagnose
from attnlab.config.schema import Backbone, Config
from attnlab.data.batch import Batch, ImageQuestionBatch, LabelledBatch, LabelledPairBatch, LanguageBatch, SequenceBatch
from attnlab.data.examples import Examples
from attnlab.learn.evaluator import precision_context
from attnlab.learn.objectives import objective_for
from attnlab.tasks.base import Prepared, Task

QUANTITIES = ("norms", "values", "weights", "locality")
MOST_POSITIONS = 128
"""rows and columns of a map; the later positions of longer sequences are left out"""
MOST_WEIGHTS = 2**27
"""attention weights, of all attentions together, that are held at once"""
_OF_ALL = {"norms": "norms", "values": "values", "locality": "weights"}
"""what is put together over all examples, and what `diagnose` calls what it is made from"""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is looked at: some examples of a subset, the first of which is the one that maps show.

    label: whose network it is; weights: which of its weights (`step 3000`).
    """

    task: Task
    prepared: Prepared
    subset: str
    numbers: np.ndarray
    label: str
    weights: str

    @property
    def shown(self) -> str:
        """The example of the maps, named, with what it says."""
        number = int(self.numbers[0])
        text = " ".join(self.task.example(self.prepared, self.subset, number).split())
        return f"example {number} of {self.subset}: {textwrap.shorten(text, 110, placeholder=' ...')}"


def choose(examples: Examples, wanted: int, example: int | None = None) -> np.ndarray:
    """Numbers of `wanted` examples (all, if there are fewer) as far apart as they can be.

    The first is the one that maps show: `example`, else one of middling length, which says more than a short one.
    """
    size = len(examples)
    numbers = np.arange(min(size, wanted)) * size // min(size, wanted)
    if example is not None:
        return np.concatenate(([example], numbers[numbers != example]))[: len(numbers)]
    if examples.lengths is None:
        return numbers
    middle = np.argsort(np.asarray(examples.lengths)[numbers], kind="stable")[len(numbers) // 2]
    return np.concatenate((numbers[[middle]], np.delete(numbers, middle)))


def summarise(network: nn.Module, config: Config, look: Look, quantities: Collection[str]) -> Summary:
    """What the attentions do on the examples of `look`.

    Maps of values are a mean over the examples where all are of one length, else they show one example, as maps of
    weights always do.

    Args:
        quantities: some of `QUANTITIES`.
    """
    device = next(network.parameters()).device
    examples, objective = look.prepared.subsets[look.subset], objective_for(look.prepared.spec)
    whole, one = (examples.batch(numbers).to(device) for numbers in (look.numbers, look.numbers[:1]))
    mean = all(bool((extent == extent[0]).all()) for extent in whole.extents)
    of_all = {_OF_ALL[name] for name in quantities if name in _OF_ALL and (mean or name != "values")}
    of_one = {name for name in quantities if name == "weights" or (name == "values" and not mean)}
    sums, single = _Sums(), {}
    with precision_context(config.train.precision, device):
        for piece in whole.pieces(_most_tokens(config.backbone, whole)) if of_all else ():
            for name, item in diagnose(network, piece, objective, of_all).items():
                sums.add(name, item, piece)
        if of_one:
            single = diagnose(network, one, objective, of_one)
    labels = _Labels(look.task.token_names(), one, config.backbone)
    values = {name: _numbered(total / len(whole), n, labels) for name, (total, n) in sums.cosines.items()}
    values |= {name: labels.of_keys(name, item.values[0]) for name, item in single.items() if "values" in of_one}
    return Summary(
        label=look.label,
        about=f"{len(whole)} examples of {look.subset}, {look.weights}",
        shown=look.shown,
        values_of=f"mean over {len(whole)} examples of {look.subset}" if mean else look.shown,
        norms=sums.norms,
        values=values,
        weights={
            name: labels.of_weights(name, item.weights[0]) for name, item in single.items() if "weights" in of_one
        },
        locality=sums.locality,
    )


@dataclass
class _Sums:
    """What is put together over pieces of a batch."""

    norms: dict[str, Norms] = field(default_factory=dict)
    cosines: dict[str, tuple[np.ndarray, int]] = field(default_factory=dict)
    locality: dict[str, Locality] = field(default_factory=dict)

    def add(self, name: str, item: Diagnosis, piece: Batch) -> None:
        keys = item.mask
        queries = piece.target_mask if is_cross(name) and isinstance(piece, SequenceBatch) else keys
        if item.query_norms is not None:
            new = Norms(_by_head(item.query_norms, queries), _by_head(item.key_norms, keys))
            old = self.norms.get(name)
            self.norms[name] = (
                new if old is None else Norms(_joined(old.queries, new.queries), _joined(old.keys, new.keys))
            )
        if item.values is not None:
            total, _ = self.cosines.get(name, (0.0, 0))
            self.cosines[name] = total + _cosines(item.values).sum(0), item.values.shape[2]
        if item.weights is not None and not is_cross(name):
            locality = self.locality.setdefault(name, Locality())
            for number, weights in enumerate(item.weights):
                n = weights.shape[-1] if keys is None else int(keys[number].sum())
                locality.add(_array(weights[:, :n, :n]), item.causal)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().cpu().numpy()


def _by_head(norms: Tensor, mask: Tensor | None) -> list[np.ndarray]:
    """Norms [B, P, N] of the real positions, head by head."""
    real = slice(None) if mask is None else mask.cpu().numpy()
    return [_array(head)[real].reshape(-1) for head in norms.unbind(1)]


def _joined(old: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.concatenate(pair) for pair in zip(old, new, strict=True)]


def _cosines(values: Tensor) -> np.ndarray:
    """Of the first positions of values [..., M, D]."""
    return cosines(_array(values[..., :MOST_POSITIONS, :]))


def _most_tokens(backbone: Backbone, batch: Batch) -> int:
    """Padded tokens a piece: the weights of an attention are heads x tokens x length, at most three uses a layer."""
    longest = int(torch.stack(batch.extents).sum(0).max())
    layers = max(backbone.n_layers, backbone.n_decoder_layers or 0)
    return max(1, MOST_WEIGHTS // (3 * layers * backbone.n_heads * longest))


class _Labels:
    """Names of the positions of one example, by the part of the network that reads them.

    Args:
        names: what input and output ids are called (`Task.token_names`).
        batch: the example alone.
    """

    def __init__(self, names: tuple[Sequence[str], Sequence[str]] | None, batch: Batch, backbone: Backbone) -> None:
        self.read: dict[str, list[str]] = {}
        self.patches = isinstance(batch, ImageQuestionBatch)
        if names is None or isinstance(batch, LabelledPairBatch):
            return
        inputs, outputs = names
        match batch:
            case SequenceBatch():
                self.read["encoder"] = [inputs[token] for token in batch.inputs[0].tolist()]
                # what the decoder reads: the end token, then the target without its last
                targets = [outputs[token] for token in batch.targets[0].tolist()]
                self.read["decoder"] = [targets[-1], *targets[:-1]]
            case LabelledBatch():
                front = ["class"] if backbone.pooling == "class_token" else []
                self.read["encoder"] = [*front, *(inputs[token] for token in batch.inputs[0].tolist())]
            case LanguageBatch():
                words = [inputs[token] for token in batch.inputs[0].tolist()]
                self.read["encoder"] = self.read["decoder"] = words

    def of(self, stack: str, n: int) -> list[str] | None:
        """Of the first positions of `n`; None where they are numbered."""
        if self.patches:
            return self.of_patches(n)
        labels = self.read.get(stack, [])
        return labels[:MOST_POSITIONS] if len(labels) == n else None

    def of_patches(self, n: int) -> list[str] | None:
        """The middle of each row of patches of a picture, the same in all examples; None where there is no picture."""
        side = isqrt(n - 1)
        rows = [f"row {place // side + 1}" if place % side == side // 2 else "" for place in range(side**2)]
        return ["class", *rows] if self.patches else None

    def of_keys(self, name: str, values: Tensor) -> Maps:
        """Cosines of values [V, M, D]."""
        labels = self.of("encoder" if is_cross(name) else _stack(name), values.shape[1])
        return Maps(_cosines(values), labels, labels, (values.shape[1],) * 2)

    def of_weights(self, name: str, weights: Tensor) -> Maps:
        """Maps of queries by keys, from weights [H, N, M]."""
        n, m = weights.shape[1:]
        rows, columns = self.of(_stack(name), n), self.of("encoder" if is_cross(name) else _stack(name), m)
        return Maps(_array(weights[:, :MOST_POSITIONS, :MOST_POSITIONS]), rows, columns, (n, m))


def _numbered(heads: np.ndarray, n: int, labels: _Labels) -> Maps:
    """Maps of a mean over examples, whose tokens differ from one to the next."""
    return Maps(heads, labels.of_patches(n), labels.of_patches(n), (n, n))


def _stack(name: str) -> str:
    """The stack of layers that an attention belongs to."""
    return next((stack for stack, part in pairwise(name.split(".")) if part == "layers"), "")
