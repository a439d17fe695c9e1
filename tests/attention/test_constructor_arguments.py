"""Attentions made in Python: refused arguments, inputs and masks."""

import copy
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch

from attnlab import attention
from attnlab.attention import GatedDeltaRule, LinearAttention, Performer, SoftmaxAttention
from attnlab.attention.core.padding import queries_and_source, without_padding
from attnlab.config.schema import Count, Normalization

REFUSED: dict[str, tuple[type, dict[str, Any]]] = {
    "LinearAttention: chunk_size=-1: expected a whole number >= 1": (LinearAttention, {"chunk_size": -1}),
    "LinearAttention: eps=-1: expected a number >= 0": (LinearAttention, {"eps": -1}),
    "LinearAttention: n_heads=0: expected a whole number >= 1": (LinearAttention, {"n_heads": 0}),
    "LinearAttention: feature_map=rel: .*nearest: relu": (LinearAttention, {"feature_map": "rel"}),
    "LinearAttention: normalization=l2: expected .*Normalization or None": (LinearAttention, {"normalization": "l2"}),
    "SoftmaxAttention: dropout=1: expected a number >= 0 and < 1": (SoftmaxAttention, {"dropout": 1}),
    "LinearAttention has no argument floor; its arguments: bias, chunk_size": (LinearAttention, {"floor": 1}),
    "Performer has no argument n_feature; nearest: n_features": (Performer, {"n_feature": 8}),
}
"""messages, and the class and arguments that they answer"""


@pytest.mark.parametrize("message", REFUSED)
def test_a_wrong_argument_is_named_with_the_class(message: str) -> None:
    mechanism, options = REFUSED[message]
    with pytest.raises((TypeError, ValueError), match=f"^{message}"):
        mechanism(**{"d_model": 8, "n_heads": 2} | options)


@pytest.mark.parametrize("name", [name for name in attention.__all__ if name != "Attention"])
def test_every_mechanism_checks_the_ranges_of_the_configuration(name: str) -> None:
    mechanism = getattr(attention, name)
    counts = [key for key, kind in get_type_hints(mechanism.__init__, include_extras=True).items() if kind == Count]
    for key in (*counts, "d_model"):
        with pytest.raises(ValueError, match=f"^{name}: {key}=0: expected a whole number >= 1"):
            mechanism(**{"d_model": 8, "n_heads": 2} | {key: 0})


def test_right_arguments_are_accepted() -> None:
    class Mine(LinearAttention):
        def __init__(self, d_model: int, n_heads: int, **options: Any) -> None:
            super().__init__(int(d_model), n_heads, **options)

    made = Mine(np.int64(8), 2, eps=0.0, normalization=Normalization(kind="l2"))
    assert copy.deepcopy(made).eps == 0 and made.q_norm is not None
    with pytest.raises(TypeError, match="floor"):
        Mine(8, 2, floor=1)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((torch.ones(5, 8),), r"x: expected numbers of shape \(batch, positions, 8\), found float32 of shape \(5, 8\)"),
        ((torch.ones(2, 5, 4),), r"x: expected numbers of shape \(2, positions, 8\)"),
        ((torch.ones(2, 5, 8), torch.ones(2, 5).bool()), "memory: .* a mask is given by its name, mask=..."),
        ((torch.ones(2, 5, 8), torch.ones(1, 5, 8)), r"memory: expected numbers of shape \(2, positions, 8\)"),
    ],
)
def test_wrong_inputs_are_named(inputs: tuple[torch.Tensor, ...], message: str) -> None:
    x, *memory = inputs
    with pytest.raises(ValueError, match=f"^{message}"):
        queries_and_source(8, x, next(iter(memory), None), None)


def test_wrong_positions_of_a_step_and_missing_forms_are_named() -> None:
    attention = LinearAttention(8, 2)
    for shape in ((2, 5, 8), (3, 1, 8), (2, 1, 4), (2, 8)):
        with pytest.raises(ValueError, match=r"^x: expected numbers of shape \(2, 1, 8\), found float32 of shape"):
            attention.step(torch.ones(shape), attention.init_state(2))
    with pytest.raises(TypeError, match=r"^state: expected one that .* returned, found NoneType$"):
        attention.step(torch.ones(2, 1, 8), None)
    with pytest.raises(ValueError, match=r"normalization.kind=L2: expected one of none, l1, l2, rms; nearest: l2$"):
        LinearAttention(8, 2, normalization=Normalization(kind="L2"))
    recurrence, x = GatedDeltaRule(8, 2), torch.ones(2, 5, 8)
    with pytest.raises(NotImplementedError, match=r"bidirectional=False has no bidirectional form; .* causal=True"):
        recurrence(x)
    with pytest.raises(NotImplementedError, match=r"GatedDeltaRule has no cross form$"):
        recurrence.init_state(2, x)


@pytest.mark.parametrize("mask", [torch.ones(2, 5), torch.ones(2, 4).bool(), torch.ones(5).bool()])
def test_a_wrong_mask_is_named(mask: torch.Tensor) -> None:
    kind, shape = str(mask.dtype).removeprefix("torch."), tuple(mask.shape)
    with pytest.raises(ValueError, match=r"^mask: expected bool .* of shape \(2, 5\), found ") as error:
        without_padding(torch.ones(2, 5, 8), mask)
    assert str(error.value).endswith(f"found {kind} of shape {shape}")
