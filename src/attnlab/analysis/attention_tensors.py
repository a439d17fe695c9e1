"""Tensors of the attentions of a network on one batch: norms, values, weights and gradients of scores.

    found = diagnose(network, batch, kind_of(spec).loss, wanted={"norms", "weights"})
    found["encoder.layers.0.attention"].weights[0, 2]    # weights of the first sample and third head

Norms and values cost one forward pass; weights O(N M) memory for every use of an attention, where the mechanism may
need far less; gradients of scores cost an additional backward pass.
"""

from collections.abc import Collection
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.data.batch import Batch
from attnlab.learn.evaluator import evaluation_mode
from attnlab.nn.attention_observer import Application, observed
from attnlab.tasks.kinds.base import Objective

QUANTITIES = ("norms", "values", "weights", "score_gradients")


@dataclass(frozen=True)
class Diagnosis:
    """Detached tensors of one use of one attention; None = not requested. Entries at padding have no meaning.

    query_norms, key_norms: L2 norms of queries and keys by head, as `attend` gets them (`norms`): projected, before the
        normalisation of a feature map; FLASH has one head for each of its pairs.
    values: projected values by head (compositional attention: by retrieval).
    weights: the matrix that multiplies the values.
    score_gradients: gradients of the loss with respect to scores (q . k / sqrt(D) of softmax attention, phi(q) . phi(k)
        of linear attention); None also for a mechanism without scores.
    mask: real keys, in self-attention also the real queries; None = all.
    causal: whether later keys are masked.
    """

    query_norms: Float[Tensor, "B P N"] | None
    key_norms: Float[Tensor, "B P M"] | None
    values: Float[Tensor, "B V M D"] | None
    weights: Float[Tensor, "B H N M"] | None
    score_gradients: Float[Tensor, "B H N M"] | None
    mask: Bool[Tensor, "B M"] | None
    causal: bool


def diagnose(
    network: nn.Module, batch: Batch, objective: Objective, wanted: Collection[str] = QUANTITIES
) -> dict[str, Diagnosis]:
    """One forward pass in evaluation mode, and a backward pass where `score_gradients` are wanted.

    The network does not change: modes are restored, gradients of parameters are not touched. Gradients are of the
    objective's loss, without the penalty; they need trainable parameters, and do not work in `torch.inference_mode`.

    Args:
        objective: (network, batch) -> loss, penalty; `tasks.kinds.base.kind_of(spec).loss`.
        wanted: which of `QUANTITIES` to compute.

    Returns:
        a diagnosis for each use of each attention, by the names of `nn.attention_observer.observed`.

    Raises:
        ValueError: an unknown quantity.
    """
    for name in wanted:
        if name not in QUANTITIES:
            raise ValueError(f"wanted={name}: expected some of {listed(QUANTITIES)}{hint(nearest(name, QUANTITIES))}")
    gradients = "score_gradients" in wanted
    with evaluation_mode(network), torch.set_grad_enabled(gradients):
        with observed(network) as uses:
            loss, _ = objective(network, batch)
        outs = [use.seen.out for use in uses.values()]
        flows = torch.autograd.grad(loss, outs) if gradients and outs else [None] * len(outs)
        return {name: _diagnosis(use, flow, wanted) for (name, use), flow in zip(uses.items(), flows, strict=True)}


def _diagnosis(use: Application, flow: Tensor | None, wanted: Collection[str]) -> Diagnosis:
    """`flow`: gradient of the loss with respect to the output of the attention."""
    seen = use.seen
    weights, score_gradients = _score_gradients(use, flow) if flow is not None else (None, None)
    if weights is None and "weights" in wanted:
        weights = use.attention.weights(seen.q, seen.k, seen.mask, seen.causal)
    norms = "norms" in wanted
    return Diagnosis(
        query_norms=use.attention.query_heads(seen.q).detach().norm(dim=-1) if norms else None,
        key_norms=use.attention.key_heads(seen.k).detach().norm(dim=-1) if norms else None,
        values=use.attention.value_heads(seen.v).detach() if "values" in wanted else None,
        weights=weights if "weights" in wanted else None,
        score_gradients=score_gradients,
        mask=seen.mask,
        causal=seen.causal,
    )


def _score_gradients(use: Application, flow: Tensor) -> tuple[Tensor, Tensor | None]:
    """The weights, and the gradient with respect to their scores: out = W v, so the gradient of W is flow v^T."""
    seen, scores = use.seen, []

    def score_hook(gradient: Tensor) -> Tensor:
        scores.append(gradient.detach().requires_grad_())
        return scores[-1]

    weights = use.attention.weights(seen.q.detach(), seen.k.detach(), seen.mask, seen.causal, score_hook)
    if not scores:
        return weights.detach(), None
    by_weights = flow @ seen.v.detach().transpose(-1, -2)
    (gradient,) = torch.autograd.grad(weights, scores, by_weights.to(weights.dtype))
    return weights.detach(), gradient
