"""Forms of a mask that layers need, made once for all layers that get the same mask."""

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from attnlab.attention.core.tensor_types import KeyMask

_made: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
"""for each mask that is alive its forms by name, and the version of the mask that they were made from"""


def made_once(mask: Tensor, name: object, make: Callable[[Tensor], Tensor]) -> Tensor:
    """`make(mask)`, kept as long as the mask is alive and unchanged.

    Args:
        name: of the form; forms in different number formats have different names.
        make: returns a new tensor, no view of the mask.
    """
    if torch.compiler.is_compiling() or torch.is_inference_mode_enabled() or mask.is_inference():
        # The compiler finds equal operations by itself; what inference mode makes, training cannot use.
        return make(mask)
    forms = _made.setdefault(mask, {})
    version, form = forms.get(name, (None, None))
    if version != mask._version:
        form = make(mask)
        forms[name] = mask._version, form
    return form


def padding_of(mask: Tensor) -> Tensor:
    """[B, N, 1], True at padding."""
    return made_once(mask, "padding", lambda mask: ~mask[:, :, None])


def padded_heads_of(mask: Tensor) -> Tensor:
    """[B, 1, M, 1], True at padding: for tensors that are split into heads."""
    return made_once(mask, "padded heads", lambda mask: ~mask[:, None, :, None])


def real_lengths(x: Tensor, mask: KeyMask | None) -> Int[Tensor, " _"]:
    """Number of real positions of each sample of x (B, H, M, ...)."""
    return torch.full(x.shape[:1], x.shape[2], device=x.device) if mask is None else mask.sum(-1)


def zero_at_padding(x: Tensor, mask: Tensor | None) -> Tensor:
    """x [B, H, M, C] with zeros at padding."""
    return x if mask is None else x.masked_fill(padded_heads_of(mask), 0.0)


def keys_of(mask: Tensor) -> Tensor:
    """[B, 1, 1, M], True at keys that may be seen."""
    # Copied: a view holds its mask, and kept as a form of it would keep it alive for ever.
    return made_once(mask, "keys", lambda mask: mask[:, None, None, :].clone())


def factors_of(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """[B, 1, M, 1], 1 at real keys and 0 at padding."""
    return made_once(mask, ("factors", dtype), lambda mask: mask[:, None, :, None].to(dtype))


def bias_of(keep: Tensor, dtype: torch.dtype) -> Tensor:
    """Sum with scores: 0 at keys that may be seen, -inf at others; 0 at all keys of a query that sees none."""

    def make(keep: Tensor) -> Tensor:
        unseen = ~keep & keep.any(-1, keepdim=True)
        return torch.zeros((), dtype=dtype, device=keep.device).masked_fill(unseen, -torch.inf)

    return made_once(keep, ("bias", dtype), make)


def without_any_key(keep: Tensor) -> Tensor | None:
    """Queries that see no key [..., 1]; None if host memory says that there is none.

    On a GPU and in a compiled step code must not branch on values: there the answer is the tensor.
    """
    blind = made_once(keep, "blind", lambda keep: ~keep.any(-1, keepdim=True))
    readable = type(blind) is Tensor and blind.device.type == "cpu" and not torch.compiler.is_compiling()
    return None if readable and not blind.any() else blind
