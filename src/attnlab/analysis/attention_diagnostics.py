"""What the attentions of a network do on one batch: norms, values, weights and gradients of scores, for figures.

    found = diagnose(network, batch, objective_for(spec), wanted={"norms", "weights"})
    found["encoder.layers.0.attention"].weights[0, 2]    # the map of the first sample and third head

Norms and values cost one forward pass; weights O(N M) memory for every use of an attention, where the mechanism itself
may need far less; gradients of scores a backward pass on top.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnlab.config.suggest import hint, listed, nearest
from attnlab.data.batch import Batch
from attnlab.learn.objectives import Objective
from attnlab.nn.attention_observer import Application, observed

QUANTITIES = ("norms", "values", "weights", "score_gradients")


@dataclass(frozen=True)
class Diagnosis:
    """One use of one attention, detached; None is what was not asked for. What stands at padding means nothing.

    query_norms, key_norms: L2 norms of queries and keys, head by head, as `attend` gets them (`norms`): projected,
        before any normalisation that goes with a feature map; FLASH has one head for each of its pairs.
    values: projected values, head by head (compositional attention: retrieval by retrieval).
    weights: what the values are multiplied by.
    score_gradients: of the loss, by the scores that the weights are made from (q . k / sqrt(D) of softmax attention,
        phi(q) . phi(k) of linear attention); None also where a mechanism has no scores.
    mask: real keys, in self-attention also the real queries; None = all.
    causal: whether keys after the query are out of sight.
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

    Nothing of the network changes: modes are put back, gradients of parameters are left as they were. Gradients are
    those of the objective's loss, without the penalty; they need parameters that are trained, and cannot be had inside
    `torch.inference_mode`.

    Args:
        objective: (network, batch) -> loss, penalty; `learn.objectives.objective_for`.
        wanted: which of `QUANTITIES` to compute.

    Returns:
        a diagnosis for each use of each attention; `nn.attention_observer.observed` says how they are named.

    Raises:
        ValueError: a wanted quantity that does not exist.
    """
    for name in wanted:
        if name not in QUANTITIES:
            raise ValueError(f"wanted={name}: expected some of {listed(QUANTITIES)}{hint(nearest(name, QUANTITIES))}")
    gradients = "score_gradients" in wanted
    with _evaluation(network), torch.set_grad_enabled(gradients):
        with observed(network) as uses:
            loss, _ = objective(network, batch)
        outs = [use.seen.out for use in uses.values()]
        flows = torch.autograd.grad(loss, outs) if gradients and outs else [None] * len(outs)
        return {name: _diagnosis(use, flow, wanted) for (name, use), flow in zip(uses.items(), flows, strict=True)}


def _diagnosis(use: Application, flow: Tensor | None, wanted: Collection[str]) -> Diagnosis:
    """`flow` is the gradient of the loss by what the attention gave."""
    seen = use.seen
    weights, score_gradients = None, None
    if flow is not None:
        weights, score_gradients = _score_gradients(use, flow)
    elif "weights" in wanted:
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
    """The weights, and the gradient by their scores: out = W v, so that by W it is flow v^T."""
    seen, scores = use.seen, []

    def score_hook(given: Tensor) -> Tensor:
        scores.append(given.detach().requires_grad_())
        return scores[-1]

    weights = use.attention.weights(seen.q.detach(), seen.k.detach(), seen.mask, seen.causal, score_hook)
    if not scores:
        return weights.detach(), None
    by_weights = flow @ seen.v.detach().transpose(-1, -2)
    (gradient,) = torch.autograd.grad(weights, scores, by_weights.to(weights.dtype))
    return weights.detach(), gradient


@contextmanager
def _evaluation(network: nn.Module) -> Iterator[None]:
    """Evaluation mode; every module gets back its own, which need not be its parent's."""
    training = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, value in training.items():
            module.training = value
