"""Law 3: every mechanism equals its slow reference, output, penalty and all gradients, in float64."""

import pytest
import torch
from support.model_cases import Case, every_attention
from support.reference_comparison import compare_with_reference, described, slow
from support.tensors import assert_same, gradients, masks
from torch import Tensor
from torch.func import functional_call


@every_attention("reference")
def test_short_sequences_equal_the_reference(case: Case, mode: str) -> None:
    for length in (1, 2):
        compare_with_reference(case.make(), mode, length)
    for lengths in ((1, 0), (2, 1), (7, 3, 0)):
        compare_with_reference(case.make(), mode, max(lengths), lengths)


@every_attention("reference", modes=["causal"], normalized=False)
def test_lengths_around_a_chunk_equal_the_reference(case: Case, mode: str) -> None:
    """65 positions with padding after them, in the form that is computed in chunks; with one head, as each head is
    alike in shorter ones. Normalisations see one row each."""
    compare_with_reference(case.make(n_heads=1), mode, 66, (65,))


@every_attention("reference", modes=["causal"], normalized=False)
def test_a_prefix_equals_the_reference_of_both_forms(case: Case, mode: str) -> None:
    """Positions of a prefix as in the bidirectional form of the prefix alone, all others as in the causal form."""
    if "bidirectional" not in case.modes():
        return
    attention, x = case.make(), torch.randn(4, 7, 8, dtype=torch.float64, requires_grad=True)
    mask, prefix_mask = masks([7, 4, 5, 0], 7), masks([4, 4, 0, 0], 5)
    inside = torch.nn.functional.pad(prefix_mask, (0, 2))
    causal, penalty = slow(attention, "causal", x, None, mask)
    both, _ = slow(attention, "bidirectional", x[:, :5], None, prefix_mask)
    expected = torch.where(inside[:, :, None], torch.nn.functional.pad(both, (0, 0, 0, 2)), causal)
    weights, results = torch.randn(4, 7, 8, dtype=torch.float64), []
    for out, loss in ((expected, penalty), attention(x, None, mask, True, prefix_mask)):
        named = gradients((out * weights)[mask].sum() + loss, attention, x=x)
        results.append(named | {"out": out.masked_fill(~mask[:, :, None], 0.0), "penalty": loss})
    assert_same(*reversed(results), tolerance=1e-9, where=described(attention, mode, 7))


@pytest.mark.slow
@every_attention("reference")
def test_all_normalisations_equal_the_reference_around_a_chunk(case: Case, mode: str) -> None:
    compare_with_reference(case.make(), mode, 65)
    compare_with_reference(case.make(), mode, 65, (63, 21))
    compare_with_reference(case.make(), mode, 63)
    compare_with_reference(case.make(), mode, 63, (63, 9))


@pytest.mark.slow
@every_attention("reference", normalized=False)
def test_500_positions_equal_the_reference(case: Case, mode: str) -> None:
    """With one head; the orthogonality loss and normalisations, which see a row at a time, are left to shorter ones:
    250,000 pairs in Python are slow enough."""
    compare_with_reference(case.make(n_heads=1, penalty=False), mode, 500)


@every_attention("reference", normalized=False)
def test_gradients_are_the_numeric_ones(case: Case, mode: str) -> None:
    """torch's numeric check along random directions of the inputs and every parameter."""
    attention = case.make()
    names, parameters = zip(*attention.named_parameters(), strict=True)
    x = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 4, 8, dtype=torch.float64, requires_grad=True) if mode == "cross" else None
    mask = masks([3, 1], 3 if memory is None else 4)

    def outputs(x: Tensor, memory: Tensor | None, *values: Tensor) -> tuple[Tensor, Tensor]:
        arguments = (x, memory, mask, mode == "causal")
        out, penalty = functional_call(attention, dict(zip(names, values, strict=True)), arguments)
        return out[mask] if memory is None else out, penalty

    torch.autograd.gradcheck(outputs, (x, memory, *parameters), fast_mode=True)
