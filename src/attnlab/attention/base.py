"""The contract of all attention mechanisms, and the projections that most of them share.

    forward(x, memory, mask, causal, prefix_mask) -> (out, penalty)   a whole sequence
    init_state(batch, memory, mask), step(x, state)   one position after another, equal to forward
    prefill(x, bidirectional) -> (out, state)         the first positions at once: forward, and the state after steps
    weights(q, k, mask, causal)                       for diagnostics: the matrix that multiplies the values

A mechanism implements `attend`; other projections, or a norm after the heads are joined, go into `queries`,
`keys_values` and `project_output`. Most extend one of two classes that implement the rest, incremental decoding
included: `linear_core.FeatureMapAttention` (sums of features) and `softmax_core.CachedAttention` (a cache of all keys).

Padding masks are boolean, True = keep, and prefixes: real positions first. Padding never reaches an output: it is
replaced by zeros on entry, and mechanisms leave masked keys out of their sums.
Letters: B batch, N queries, M keys, H heads, D head width, C value width, E model width, F features.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypedDict, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlab.attention.core.constructor_arguments import check_when_made
from attnlab.attention.core.orthogonality_loss import loss_of_finite_values
from attnlab.attention.core.padding import (
    queries_and_source,
    with_checked_memory,
    with_checked_position,
    without_padding,
)
from attnlab.attention.core.projected_heads import heads_of, projected_heads
from attnlab.attention.core.tensor_types import Attended, AttentionWeights, KeyMask, Memory, ScoreHook, Values
from attnlab.attention.positions.base import InScores, Positions
from attnlab.config.problem import UserError
from attnlab.config.schema import OrthoForm, OrthoValues, Width
from attnlab.kernels.linear_map import LinearMap

Initialization = Literal["xavier", "torch"]


class TooLong(UserError, ValueError):
    """A sequence is too long for the network; the message says what to do."""


@dataclass(frozen=True)
class State:
    """State of incremental decoding, after `position` tokens; every tensor field is batch first."""

    position: int

    def select(self, rows: Int[Tensor, " K"] | Bool[Tensor, " B"]) -> "State":
        """The state of some rows of the batch, in the order given."""
        chosen: Any = {name: value[rows] for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **chosen)


@dataclass(frozen=True)
class Observation:
    """Arguments and output (B, H, N, C) of one call of `attend`, for an observer."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    causal: bool
    out: Tensor


StateT = TypeVar("StateT", bound=State)


def require_heads(d_model: int, n_heads: int, inner_width: int | None = None) -> None:
    """Checks that heads have a whole width.

    Raises:
        ValueError: n_heads does not divide inner_width, or d_model without one.
    """
    name, width = ("d_model", d_model) if inner_width is None else ("inner_width", inner_width)
    if width % n_heads:
        raise ValueError(f"n_heads={n_heads} does not divide {name}={width}")


class AttentionOptions(TypedDict, total=False):
    """Options that every mechanism hands on to `Attention`, which describes them; the network builder sets them."""

    bias: bool
    initialization: Initialization
    orthogonality: bool
    positions: Positions | None
    inner_width: Width | None


def head_width_of(d_model: int, n_heads: int, options: AttentionOptions) -> int:
    """Width of a head, for constructors that need it before that of `Attention`."""
    return (options.get("inner_width") or d_model) // n_heads


class Attention(nn.Module, ABC, Generic[StateT]):
    """Multi-head attention with projections `q_proj, k_proj, v_proj` from E to the inner width, and `out_proj` back.

    A subclass implements `attend`; for incremental decoding with a state S (`class Mechanism(Attention[S])`) also
    `init_state`, `step` and `state_size` (and `state_after`, where something is faster than steps), and it declares
    `supports_step`. The config check refuses the rest:

    supports_*: whether a form exists (supports_inner_width: not inherited, as projections may be others);
        limits: options that exclude a form, `{option: {value: [supports_...]}}`.
    reads_normalization: the keys of `model.normalization` that a mechanism with a `normalization` reads.
    values_of_null: options for which None stands for a value of the class, with these values.
    cross_equals_self: cross-attention from the first positions over the whole sequence equals self-attention there, so
        a last layer can leave out the others; not inherited, since a subclass may change what is computed.

    Args:
        d_model, n_heads: model width E, and number of heads H, which divides the inner width.
        bias: biases in the four projections.
        initialization: xavier = xavier-uniform weights and zero biases; torch = PyTorch's default.
        orthogonality: compute the orthogonality loss on the values as the penalty.
        positions: the network's positions, where they do something in the scores of this self-attention.
        inner_width: of queries, of keys and of values, all heads together; None = d_model.

    Attributes:
        causal_reach: number of positions that a causal query sees, up to its own; None = all of the past.
        redraw_every: optimiser steps between two calls of `redraw`; null = nothing is ever redrawn.
        ortho_form, ortho_values: as in `orthogonality_loss`; set by the network builder.
        observer: called with an `Observation` at every forward; None (no cost) unless diagnostics set it.

    Raises:
        ValueError: a value does not fit, or n_heads does not divide the inner width. TypeError: an unknown argument.
    """

    supports_bidirectional: bool = True
    supports_causal: ClassVar[bool] = True
    supports_cross: ClassVar[bool] = True
    supports_step: ClassVar[bool] = False
    supports_position_scores: ClassVar[bool] = False
    supports_rotation: ClassVar[bool] = False
    supports_orthogonality: ClassVar[bool] = True
    supports_inner_width: ClassVar[bool] = False
    replaces_feed_forward: ClassVar[bool] = False
    reads_normalization: ClassVar[tuple[str, ...]] = ("kind", "placement", "denominator", "eps", "only")
    limits: ClassVar[dict[str, dict[Any, list[str]]]] = {}
    values_of_null: ClassVar[Mapping[str, Any]] = {}
    cross_equals_self: ClassVar[bool] = False
    causal_reach: int | None = None
    redraw_every: int | None = None
    ortho_form: OrthoForm | None = None
    ortho_values: OrthoValues = "per_head"
    observer: Callable[[Observation], None] | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.cross_equals_self = vars(cls).get("cross_equals_self", False)
        cls.supports_inner_width = vars(cls).get("supports_inner_width", False)
        check_when_made(cls)
        for name, checked in (("step", with_checked_position), ("init_state", with_checked_memory)):
            if name in vars(cls):
                setattr(cls, name, checked(vars(cls)[name]))

    def __init__(
        self,
        d_model: Width,
        n_heads: Width,
        *,
        bias: bool = True,
        initialization: Initialization = "torch",
        orthogonality: bool = False,
        positions: Positions | None = None,
        inner_width: Width | None = None,
    ) -> None:
        super().__init__()
        if inner_width is not None and not self.supports_inner_width:
            raise ValueError(f"{type(self).__name__} has no inner width other than d_model")
        require_heads(d_model, n_heads, inner_width)
        self.d_model, self.n_heads, self.orthogonality = d_model, n_heads, orthogonality
        self.inner_width = inner_width or d_model
        self.head_width = self.inner_width // n_heads
        self.make_projections(d_model, bias)
        if initialization == "xavier":
            for proj in (child for child in self.children() if isinstance(child, nn.Linear)):
                nn.init.xavier_uniform_(proj.weight)
                if proj.bias is not None:
                    nn.init.zeros_(proj.bias)
        if positions is not None and positions.needs is not None and not getattr(self, positions.needs):
            raise ValueError(f"{type(self).__name__} has no form with {type(positions).__name__}")
        self.positions = None if positions is None else positions.in_scores(self.inner_width, n_heads, initialization)
        adds = self.positions is not None and type(self.positions).added is not InScores.added
        if adds and not self.supports_position_scores:
            raise ValueError(f"{type(positions).__name__} adds to scores: its `needs` is not supports_position_scores")

    @classmethod
    def misfit(cls, d_model: int, n_heads: int, options: Mapping[str, Any]) -> str:
        """Why options of a configuration cannot be, each of which is valid by itself; empty where they can."""
        return ""

    def make_projections(self, d_model: int, bias: bool) -> None:
        """Make the projections from and to the residual stream; a mechanism with other ones overrides this."""
        self.q_proj, self.k_proj, self.v_proj = (LinearMap(d_model, self.inner_width, bias=bias) for _ in range(3))
        self.out_proj = LinearMap(self.inner_width, d_model, bias=bias)

    @abstractmethod
    def attend(
        self, q: Float[Tensor, "B H N Q"], k: Float[Tensor, "B H M K"], v: Values, mask: KeyMask | None, causal: bool
    ) -> Attended:
        """The mechanism itself, on projected heads; linear in v; zero where a query has no key to attend to."""

    def forward(
        self,
        x: Float[Tensor, "B N E"],
        memory: Memory | None = None,
        mask: KeyMask | None = None,
        causal: bool = False,
        prefix_mask: Bool[Tensor, "B P"] | None = None,
    ) -> tuple[Float[Tensor, "B N E"], Float[Tensor, ""]]:
        """Self-attention (memory None, mask over x) or cross-attention (mask over memory).

        Args:
            prefix_mask: with causal; True at the positions of a prefix, which all see each other and nothing else.

        Returns:
            the output and the mechanism's unweighted auxiliary loss (zero where it has none).

        Raises:
            NotImplementedError: the mechanism lacks this form. ValueError: inputs or a mask of another shape or type.
        """
        form = "cross" if memory is not None else "causal" if causal else "bidirectional"
        for needed in (form,) if prefix_mask is None else (form, "bidirectional"):
            self.require_form(needed)
        x, source = queries_and_source(self.d_model, x, memory, mask)
        q, k, v = self.queries_keys_values(x, source)
        out = self.attend(q, k, v, mask, causal)
        if self.observer is not None:
            self.observer(Observation(q, k, v, mask, causal, out))
        if prefix_mask is not None:
            out = self._with_prefix(out, q, k, v, prefix_mask)
        if not self.orthogonality:
            return self.project_output(out, x), x.new_zeros(())
        options = self.ortho_form, self.ortho_values
        return self.project_output(out, x), loss_of_finite_values(self.value_heads(v), mask, *options)

    def require_form(self, form: str) -> None:
        """Checks that a form exists: bidirectional, causal, cross, step.

        Raises:
            NotImplementedError: it does not. Named: the option that excludes it, and the call in the other direction.
        """
        if getattr(self, f"supports_{form}"):
            return
        excluding = [
            f"{option}={value}"
            for option, values in self.limits.items()
            for value, forms in values.items()
            if f"supports_{form}" in forms
        ]
        name = type(self).__name__ + f" with {' or '.join(excluding)}" * bool(excluding)
        other = {"bidirectional": "causal", "causal": "bidirectional"}.get(form)
        has_other = other is not None and getattr(self, f"supports_{other}")
        advice = f"; call it with causal={other == 'causal'}" if has_other else ""
        raise NotImplementedError(f"{name} has no {form} form{advice}")

    def _with_prefix(
        self, out: Tensor, q: Tensor, k: Tensor, v: Tensor, prefix_mask: Bool[Tensor, "B P"]
    ) -> Float[Tensor, "B H N C"]:
        """The output with the bidirectional form of the prefix at its positions."""
        size = prefix_mask.shape[1]
        inside = self.attend(q[:, :, :size], k[:, :, :size], v[:, :, :size], prefix_mask, False)
        inside = torch.where(prefix_mask[:, None, :, None], inside, out[:, :, :size])
        return torch.cat((inside, out[:, :, size:]), dim=2)

    def queries(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B H N Q"]:
        """Projected queries, split into heads."""
        return self.split_heads(self.q_proj(x))

    def keys_values(self, source: Memory) -> tuple[Float[Tensor, "B H M K"], Float[Tensor, "B H M C"]]:
        """Projected keys and values, split into heads."""
        k, v = projected_heads(source, (self.k_proj, self.v_proj), self.n_heads)
        return k, v

    def queries_keys_values(
        self, x: Float[Tensor, "B N E"], source: Memory
    ) -> tuple[Float[Tensor, "B P N Q"], Float[Tensor, "B S M K"], Float[Tensor, "B V M C"]]:
        """`queries` of x and `keys_values` of the source; one matrix product where nothing else is defined."""
        kind = type(self)
        if x is source and kind.queries is Attention.queries and kind.keys_values is Attention.keys_values:
            q, k, v = projected_heads(x, (self.q_proj, self.k_proj, self.v_proj), self.n_heads)
            return q, k, v
        return self.queries(x), *self.keys_values(source)

    def no_keys_values(self, batch: int) -> tuple[Float[Tensor, "B H 0 K"], Float[Tensor, " B #H 0 C"]]:
        """Keys and values of length 0, for the state before the first position."""
        return self.keys_values(next(self.parameters()).new_zeros(batch, 0, self.d_model))

    def query_heads(self, q: Float[Tensor, "B H N Q"]) -> Float[Tensor, "B P N D"]:
        """Queries by head, without other columns that `queries` adds: for diagnostics."""
        return q

    def key_heads(self, k: Float[Tensor, "B H M K"]) -> Float[Tensor, "B P M D"]:
        """Keys by head, without other columns that `keys_values` adds: for diagnostics."""
        return k

    def value_heads(self, v: Values) -> Float[Tensor, "B V M D"]:
        """Values by head, for the orthogonality loss: `v`, unless a mechanism packs its heads in another way."""
        return v

    def project_output(self, out: Float[Tensor, "B H N C"], x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        """Joins heads and projects them; x is the input of the queries."""
        return self.out_proj(self.join_heads(out))

    def memory_keys_values(
        self, memory: Memory, mask: KeyMask | None
    ) -> tuple[Float[Tensor, "B H M K"], Float[Tensor, " B #H M C"]]:
        """Keys and values of a memory; padding is replaced by zeros, as in `forward`."""
        return self.keys_values(without_padding(memory, mask))

    def split_heads(self, x: Float[Tensor, "B N HD"]) -> Float[Tensor, "B H N D"]:
        """Heads as an axis before the positions."""
        return heads_of(x, self.n_heads)[0]

    def join_heads(self, x: Float[Tensor, "B H N D"]) -> Float[Tensor, "B N HD"]:
        """Concatenation of the heads: inverse of `split_heads`."""
        return x.transpose(1, 2).flatten(-2)

    def init_state(self, batch: int, memory: Memory | None = None, mask: KeyMask | None = None) -> StateT:
        """State before the first position: empty for self-attention, made from the memory for cross-attention."""
        raise NotImplementedError(f"{type(self).__name__} has no step form")

    def step(self, x: Float[Tensor, "B 1 E"], state: StateT) -> tuple[Float[Tensor, "B 1 E"], StateT]:
        """One position: equals the same row of `forward(causal=True)`, or of cross-attention over the memory."""
        raise NotImplementedError(f"{type(self).__name__} has no step form")

    def prefill(self, x: Float[Tensor, "B N E"], bidirectional: bool = False) -> tuple[Float[Tensor, "B N E"], StateT]:
        """The first positions of sequences without padding: `forward`, and the state after as many steps."""
        return self(x, causal=not bidirectional)[0], self.state_after(x)

    def state_after(self, x: Float[Tensor, "B N E"]) -> StateT:
        """The state after all positions of sequences without padding."""
        state = self.init_state(len(x))
        for position in range(x.shape[1]):
            _, state = self.step(x[:, position : position + 1], state)
        return state

    def state_size(self, length: int) -> int:
        """Size of the self-attention state of one example after `length` tokens, in numbers; 0 without a state."""
        return 0

    def redraw(self, generator: torch.Generator) -> None:
        """Redraw random features or hashes, between optimiser steps, by a CPU generator; nothing without them."""

    def weights(
        self,
        q: Float[Tensor, "B H N Q"],
        k: Float[Tensor, "B H M K"],
        mask: KeyMask | None,
        causal: bool,
        score_hook: ScoreHook | None = None,
    ) -> AttentionWeights:
        """The matrix that multiplies the values in `attend`: for diagnostics, at a cost of O(N M).

        A mechanism with scores (B, H, N, M) overrides this, with `score_hook(scores)` in their place if there is a hook
        (for their gradients). Without scores, one-hot values give the weights, because `attend` is linear in v.
        """
        one_hot = torch.eye(k.shape[2], dtype=q.dtype, device=q.device)
        return self.attend(q, k, one_hot.expand(*k.shape[:3], -1), mask, causal)
