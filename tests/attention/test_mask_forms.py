"""Forms of masks: made once for all layers, made anew for a changed mask, and rows without any key."""

import gc
from collections import Counter

import pytest
import torch
from support.model_cases import distinct_for, network_of
from support.tensors import masks
from torch import Tensor

from attnlab.attention.core import mask_forms
from attnlab.attention.core.mask_forms import bias_of, factors_of, made_once, without_any_key


@pytest.mark.parametrize("model", ["vanilla", "linear_l2"])
def test_a_form_is_made_once_a_batch(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of(model, "lra_listops", n_layers=3, pooling="first").train()
    made: Counter[str] = Counter()
    monkeypatch.setattr(Tensor, "__invert__", lambda self: made.update(["inverted"]) or torch.bitwise_not(self))
    x, mask = torch.randint(7, (3, 5)), masks([5, 2, 3], 5)
    network(x, mask)
    once = made["inverted"]
    network(x, mask)
    assert once and made["inverted"] == once, "the second pass over the same mask makes nothing"


def test_a_changed_mask_gets_new_forms() -> None:
    mask = masks([5, 2], 5)
    first = factors_of(mask, torch.float32)
    assert factors_of(mask, torch.float32) is first and factors_of(mask, torch.float64) is not first
    mask[1] = False
    assert not factors_of(mask, torch.float32)[1].any()


def test_forms_die_with_their_mask_and_stay_out_of_inference_mode() -> None:
    mask = masks([5, 2], 5)
    gc.collect()
    before = len(mask_forms._made)
    with torch.inference_mode():
        inference = made_once(mask, "negative", lambda mask: ~mask)
    assert inference.is_inference() and len(mask_forms._made) == before
    assert not made_once(mask, "negative", lambda mask: ~mask).is_inference()
    assert len(mask_forms._made) == before + 1
    del mask
    gc.collect()
    assert len(mask_forms._made) == before


@pytest.mark.parametrize("model", distinct_for("lra_listops"))
def test_a_pass_through_a_network_keeps_no_mask(model: str) -> None:
    """A form that is a view of its mask would keep it alive, and memory would grow with every batch."""
    network = network_of(model, "lra_listops").train()
    gc.collect()
    before = len(mask_forms._made)
    for _ in range(3):
        out, penalty = network(torch.randint(7, (3, 5)), masks([5, 2, 3], 5))
        (out.sum() + penalty).backward()
        del out, penalty
    gc.collect()
    assert len(mask_forms._made) == before


def test_only_masks_with_an_empty_row_need_a_guard() -> None:
    full, empty = masks([5, 2], 5)[:, None, None], masks([5, 0], 5)[:, None, None]
    assert without_any_key(full) is None
    blind = without_any_key(empty)
    assert blind is not None and blind.flatten().tolist() == [False, True]
    assert (bias_of(full, torch.float32)[1, 0, 0] == torch.tensor([0.0, 0.0, *[-torch.inf] * 3])).all()
    assert (bias_of(empty, torch.float32)[1] == 0).all()
