"""Output head of networks over tokens, and the base class of networks."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.kernels.linear_map import LinearMap, linear
from attnlab.nn.embedding import TokenEmbedding


class Output(nn.Module):
    """Logits over the output vocabulary; tied weights are shared with the embedding, the bias never is.

    Args:
        never: ids that are no target (`TaskSpec.never_targets`). Their bias counts as the smallest finite number, so
            they have no share in a softmax, are never chosen, and get no gradient.
    """

    never_mask: Tensor

    def __init__(
        self, width: int, vocabulary: int, tied: TokenEmbedding | None, xavier: bool, never: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.linear = LinearMap(width, vocabulary)
        never_mask = torch.zeros(vocabulary, dtype=torch.bool)
        never_mask[list(never)] = True
        self.register_buffer("never_mask", never_mask, persistent=False)
        if tied is not None:
            self.linear.weight = tied.table.weight
            nn.init.zeros_(self.linear.bias)
        elif xavier:
            nn.init.xavier_uniform_(self.linear.weight)

    @property
    def weight(self) -> Float[Tensor, "V E"]:
        """The weight of `linear`."""
        return self.linear.weight

    @property
    def bias(self) -> Float[Tensor, " V"]:
        """The bias of `linear`, masked at ids that are never a target."""
        # Not -inf: the chunked loss multiplies it by a gradient of 0.
        return self.linear.bias.masked_fill(self.never_mask, torch.finfo(self.linear.bias.dtype).min)

    def forward(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N V"]:
        """Logits at every position."""
        return linear(x, self.weight, self.bias)


class Network(nn.Module):
    """Base class of whole networks."""

    def state_size(self, length: int) -> int:
        """Size of the self-attention state of one example after `length` tokens, in numbers; 0 without decoding."""
        return 0
