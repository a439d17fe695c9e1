"""Output head of networks over tokens, and the base class of networks."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
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


class SequenceNetwork(Network):
    """Base class of networks from a token sequence to another one."""

    @abstractmethod
    def forward(
        self,
        inputs: Int[Tensor, "B S"],
        input_mask: Bool[Tensor, "B S"],
        read: Int[Tensor, "B T"],
        read_mask: Bool[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, ""]]:
        """Teacher forcing.

        Args:
            inputs, input_mask: source tokens with start and end tokens, and their padding mask.
            read: the end token, then the target without its last token.

        Returns:
            logits of the target tokens, and the mean unweighted penalty.
        """

    @abstractmethod
    def start(self, inputs: Int[Tensor, "B S"], input_mask: Bool[Tensor, "B S"]) -> Any:
        """The state before the first output token; it has `position` and `select`, as `attention.base.State` has."""

    @abstractmethod
    def step(self, tokens: Int[Tensor, " B"], state: Any) -> tuple[Float[Tensor, "B V"], Any]:
        """Logits of the next token after reading `tokens`."""
