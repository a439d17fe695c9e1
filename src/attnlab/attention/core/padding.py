"""Checks of the sequences that an attention gets, and zeros at their padding."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from attnlab.attention.core.mask_forms import padding_of


def queries_and_source(d_model: int, x: Tensor, memory: Tensor | None, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Sequences (B, N, E) of queries, and of keys and values: x or the memory; with zeros at padding.

    A mask has the real positions of each sequence first. This is not checked, because a GPU would wait for it.

    Raises:
        ValueError: another shape, a mask in the place of a memory, or a wrong mask.
    """
    batch = x.shape[0] if x.ndim == 3 else None
    _require_numbers("x", x, batch, None, d_model)
    if memory is not None:
        _require_numbers("memory", memory, batch, None, d_model)
    source = without_padding(x if memory is None else memory, mask)
    return source if memory is None else x, source


def with_checked_position(step: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` of an attention that checks its position (B, 1, E) against the state; wrong shapes are a ValueError,
    another state is a TypeError."""

    @wraps(step)
    def checked(self: Any, x: Tensor, state: Any) -> Any:
        if not hasattr(state, "position"):
            raise TypeError(f"state: expected one that `init_state` or `step` returned, found {type(state).__name__}")
        batch = next((len(value) for value in vars(state).values() if isinstance(value, Tensor)), None)
        _require_numbers("x", x, batch, 1, self.d_model)
        return step(self, x, state)

    return checked


def with_checked_memory(init_state: Callable[..., Any]) -> Callable[..., Any]:
    """An `init_state` of an attention that refuses a memory without a cross form: a NotImplementedError."""

    @wraps(init_state)
    def checked(self: Any, batch: int, memory: Tensor | None = None, mask: Tensor | None = None) -> Any:
        if memory is not None:
            self.require_form("cross")
        return init_state(self, batch, memory, mask)

    return checked


def _require_numbers(name: str, x: Tensor, batch: int | None, positions: int | None, d_model: int) -> None:
    wanted = batch, positions, d_model
    fits = x.ndim == 3 and all(size in (None, length) for size, length in zip(wanted, x.shape, strict=True))
    if not fits or not x.is_floating_point():
        sizes = ", ".join(
            word if size is None else str(size) for size, word in zip(wanted, ("batch", "positions", ""), strict=True)
        )
        named = "; a mask is given by its name, mask=..." if x.dtype == torch.bool else ""
        raise ValueError(
            f"{name}: expected numbers of shape ({sizes}), found {_kind(x)} of shape {tuple(x.shape)}{named}"
        )


def without_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """Sequences (B, M, E) with zeros at padding, so that it reaches no output.

    Raises:
        ValueError: the mask is not boolean, or not (B, M).
    """
    if mask is None:
        return x
    if mask.dtype != torch.bool or mask.shape != x.shape[:2]:
        shown = f"{_kind(mask)} of shape {tuple(mask.shape)}"
        raise ValueError(f"mask: expected bool (True = a real position) of shape {tuple(x.shape[:2])}, found {shown}")
    return x.masked_fill(padding_of(mask), 0.0)


def _kind(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")
