"""The contract every attention mechanism fulfils, and the projections most of them share.

    forward(x, memory, mask, causal) -> (out, penalty)      a whole sequence
    init_state(batch, memory, mask), step(x, state)         one position after another, equal to forward

Masks are boolean, True = keep, and prefixes: real positions first. What stands at padded positions never reaches an
output: it is replaced by zeros on entry, and mechanisms leave masked keys out of their sums.
Letters: B batch, N queries, M keys, H heads, D head width, E model width, F features.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Literal

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlab.attention.orthogonality import orthogonality_loss

Initialization = Literal["xavier", "torch"]


@dataclass(frozen=True)
class State:
    """What decoding carries from one position to the next; every tensor field is batch first.

    position: number of tokens already read.
    """

    position: int

    def select(self, rows: Int[Tensor, " K"] | Bool[Tensor, " B"]) -> "State":
        """The state of some rows of the batch, in the order given."""
        tensors = {
            f.name: getattr(self, f.name)[rows] for f in fields(self) if isinstance(getattr(self, f.name), Tensor)
        }
        return replace(self, **tensors)


class Attention(nn.Module, ABC):
    """Multi-head attention with projections `q_proj, k_proj, v_proj, out_proj` of E x E.

    A subclass gives `attend`, `init_state`, `step` and `state_size`, and declares what it cannot do; asking for it is
    refused by the config check, which reads these attributes without importing the module.

    Args:
        d_model: model width E.
        n_heads: heads H; must divide E.
        bias: biases in the four projections.
        initialization: xavier = xavier-uniform weights and zero biases; torch = PyTorch's default.
        orthogonality: compute the orthogonality loss on the values as the penalty.

    Raises:
        ValueError: n_heads does not divide d_model.
    """

    supports_bidirectional: ClassVar[bool] = True
    supports_causal: ClassVar[bool] = True
    supports_cross: ClassVar[bool] = True
    supports_step: ClassVar[bool] = True
    supports_relative_positions: ClassVar[bool] = False
    supports_orthogonality: ClassVar[bool] = False
    replaces_feed_forward: ClassVar[bool] = False

    def __init__(
        self, d_model: int, n_heads: int, *, bias: bool, initialization: Initialization, orthogonality: bool = False
    ) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide d_model={d_model}")
        self.n_heads, self.head_width = n_heads, d_model // n_heads
        self.orthogonality = orthogonality
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(d_model, d_model, bias=bias) for _ in range(4)
        )
        if initialization == "xavier":
            for proj in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
                nn.init.xavier_uniform_(proj.weight)
                if proj.bias is not None:
                    nn.init.zeros_(proj.bias)

    @abstractmethod
    def attend(
        self,
        q: Float[Tensor, "B H N D"],
        k: Float[Tensor, "B H M D"],
        v: Float[Tensor, "B H M D"],
        mask: Bool[Tensor, "B M"] | None,
        causal: bool,
    ) -> Float[Tensor, "B H N D"]:
        """The mechanism itself, on projected heads; zero where a query has no key to attend to."""

    @abstractmethod
    def init_state(
        self, batch: int, memory: Float[Tensor, "B M E"] | None = None, mask: Bool[Tensor, "B M"] | None = None
    ) -> State:
        """State before the first position: empty for self-attention, made from the memory for cross-attention."""

    @abstractmethod
    def step(self, x: Float[Tensor, "B 1 E"], state: State) -> tuple[Float[Tensor, "B 1 E"], State]:
        """One position: equals the same row of `forward(causal=True)`, or of cross-attention over the memory."""

    @abstractmethod
    def state_size(self, length: int) -> int:
        """Numbers a self-attention state holds for one example after `length` tokens."""

    def forward(
        self,
        x: Float[Tensor, "B N E"],
        memory: Float[Tensor, "B M E"] | None = None,
        mask: Bool[Tensor, "B M"] | None = None,
        causal: bool = False,
    ) -> tuple[Float[Tensor, "B N E"], Float[Tensor, ""]]:
        """Self-attention (memory None, mask over x) or cross-attention (mask over memory).

        Returns:
            the output and the mechanism's unweighted auxiliary loss (zero where it has none).
        """
        source = x if memory is None else memory
        if mask is not None:
            source = source.masked_fill(~mask[:, :, None], 0.0)
            x = source if memory is None else x
        q = self.split_heads(self.q_proj(x))
        k, v = self.keys_values(source)
        out = self.join_heads(self.attend(q, k, v, mask, causal))
        penalty = orthogonality_loss(v, mask) if self.orthogonality else x.new_zeros(())
        return self.out_proj(out), penalty

    def keys_values(self, source: Float[Tensor, "B M E"]) -> tuple[Float[Tensor, "B H M D"], Float[Tensor, "B H M D"]]:
        """Projected keys and values, split into heads."""
        return self.split_heads(self.k_proj(source)), self.split_heads(self.v_proj(source))

    def memory_keys_values(
        self, memory: Float[Tensor, "B M E"], mask: Bool[Tensor, "B M"] | None
    ) -> tuple[Float[Tensor, "B H M D"], Float[Tensor, "B H M D"]]:
        """Keys and values of a memory whose padding is replaced by zeros, as `forward` does."""
        return self.keys_values(memory if mask is None else memory.masked_fill(~mask[:, :, None], 0.0))

    def split_heads(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B H N D"]:
        return x.unflatten(-1, (self.n_heads, self.head_width)).transpose(1, 2)

    def join_heads(self, x: Float[Tensor, "B H N D"]) -> Float[Tensor, "B N E"]:
        return x.transpose(1, 2).flatten(-2)
