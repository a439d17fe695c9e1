"""Attention weights of the diagnostics: weights times values equal `attend`."""

import torch
from support.model_cases import Case, apply, every_attention
from support.tensors import masks
from torch import Tensor

from attnlab.attention.base import Attention, Observation


def observed(attention: Attention, mode: str, mask: Tensor) -> Observation:
    """What an observer of one forward sees."""
    seen: list[Observation] = []
    attention.observer = seen.append
    x = torch.randn(3, *mask.shape[1:], 8, dtype=torch.float64)
    apply(attention, mode, x, torch.randn_like(x), mask)
    assert len(seen) == 1
    return seen[0]


@every_attention("weights")
def test_weights_times_values_are_the_output(case: Case, mode: str) -> None:
    """Also through `score_hook`, which sees the scores of the mechanisms that have them and can give others back."""
    attention = case.make()
    for lengths in ((7, 3, 1), (70, 65, 2)):
        seen = observed(attention, mode, masks(lengths, max(lengths)))
        real = torch.ones_like(seen.mask) if mode == "cross" else seen.mask
        tapped: list[Tensor] = []
        for score_hook in (None, lambda scores, tapped=tapped: tapped.append(scores) or scores):
            weights = attention.weights(seen.q, seen.k, seen.mask, seen.causal, score_hook)
            assert weights.shape == (*seen.q.shape[:3], seen.k.shape[2])
            assert not weights[~seen.mask[:, None, None].expand_as(weights)].any(), "a weight on padding"
            if seen.causal:
                assert not weights.triu(1).any(), "a weight on the future"
            out = weights @ seen.v
            rows = real[:, None, :, None].expand_as(out)
            torch.testing.assert_close(out[rows], seen.out[rows], rtol=1e-9, atol=1e-11)
        assert all(scores.shape == weights.shape for scores in tapped)


@every_attention("diagnostics")
def test_heads_of_queries_and_keys_can_be_compared(case: Case, mode: str) -> None:
    """Other numbers that a mechanism packs with them are left out, since they would change the norms."""
    attention = case.make()
    seen = observed(attention, mode, masks((7, 3, 1), 7))
    q, k = attention.query_heads(seen.q), attention.key_heads(seen.k)
    assert q.shape[:2] == k.shape[:2] and q.shape[2:] == (7, k.shape[3])
    values = attention.value_heads(seen.v)
    assert values.shape[2] == 7 and values.numel() == seen.v.numel()
