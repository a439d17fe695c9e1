"""A last layer of which only the first positions are read: what is left out changes nothing that is read."""

import pytest
import torch
from support.model_cases import Case, cases, config_of, models_for, network_of
from support.tensors import assert_same, gradients, masks

from attnlab.attention.linear import LinearAttention
from attnlab.nn.layer_stack import LayerStack
from attnlab.nn.transformer_block import computed_alone

LENGTHS = [12, 7, 1]


def declares(case: Case) -> bool:
    return computed_alone(case.make())


@pytest.mark.parametrize("case", [case for case in cases().values() if declares(case)], ids=lambda case: case.node[:60])
def test_cross_attention_from_the_first_positions_equals_self_attention(case: Case) -> None:
    """Outputs, penalty and gradients."""
    attention, mask = case.make(), masks(LENGTHS, 12)
    x = torch.randn(3, 12, 8, dtype=torch.float64)
    for first in (1, 3):
        collected = []
        for queries, memory in ((x, None), (x[:, :first], x)):
            out, penalty = attention(queries, memory, mask, False)
            read = out[:, :first][mask[:, :first]]
            collected.append(gradients(read.square().sum() + penalty, attention) | {"out": read})
        assert_same(collected[1], collected[0], 1e-10)


def test_shipped_mechanisms_with_both_forms_declare_it() -> None:
    declaring = {case.mechanism.__name__ for case in cases().values() if declares(case)}
    assert declaring >= {"CompositionalAttention", "CosFormer", "KernelizedAttention", "LinearAttention", "Linformer"}
    assert declaring >= {"NormAttention", "Performer", "SoftmaxAttention"}


def test_a_subclass_declares_it_anew_and_observers_see_all_positions() -> None:
    class Changed(LinearAttention):
        pass

    class Declared(LinearAttention):
        cross_equals_self = True

    assert not computed_alone(Changed(8, 2))
    declared = Declared(8, 2)
    assert computed_alone(declared)
    declared.observer = print
    assert not computed_alone(declared)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("model", ["linear_l2_ortho", "relative", "flash", "transnormer_t2"])
def test_a_stack_leaves_out_what_is_not_read(model: str, placement: str) -> None:
    """Outputs, penalties and gradients of the read positions, with every form of a last layer."""
    assert model in models_for("lra_listops") and config_of(model, "lra_listops")
    stack = network_of(model, "lra_listops", norm_placement=placement).sequence.encoder
    assert isinstance(stack, LayerStack)
    x, mask = torch.randn(3, 12, 8, dtype=torch.float64), masks(LENGTHS, 12)
    collected = []
    for needed in (None, 1):
        out, penalties = stack(x, mask, False, needed=needed)
        assert out.shape[1] == (needed or 12)
        out = out[:, :1]
        loss = out.square().sum() + sum(penalties, torch.zeros(()))
        collected.append(gradients(loss, stack) | {"out": out})
    assert_same(collected[1], collected[0], 1e-10)
