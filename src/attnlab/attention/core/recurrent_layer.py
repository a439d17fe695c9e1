"""The layer around a recurrence: projections, short convolution, norms of queries and keys, gates, output norm.

    q, k, v = f(conv(W x)),   out = W_o (norm(recurrence(q / sqrt(K), k, v, decay, write strength)) * g(W_g x))

A mechanism is a class that names the published layer and computes its decays and write strengths; the recurrence is in
`core/recurrent_sums`. Keys of width K and values of width C make a state of K C numbers a head, so a step costs the
same at every position. No cross-attention: the state is made in the order of the sequence, of which a memory has none
that a query could stand in.

Bidirectional use is ours: the sum of the recurrence over the past and over the future, in which a position itself
counts twice; convolutions stay causal. It is off unless `bidirectional` is set.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.attention.base import Attention, AttentionOptions, State, require_heads
from attnlab.attention.core.decay_gates import wide
from attnlab.attention.core.fla_kernels import kernel_sums, missing_kernels
from attnlab.attention.core.mask_forms import zero_at_padding
from attnlab.attention.core.projected_heads import heads_of
from attnlab.attention.core.qk_norm import norms_of
from attnlab.attention.core.recurrent_sums import Recurrent, recurrent_step, recurrent_sums
from attnlab.attention.core.sum_precision import full_precision, projected, saturated
from attnlab.attention.core.tensor_types import KeyMask, Memory
from attnlab.config.schema import Natural, Normalization, Positive
from attnlab.kernels.linear_map import LinearMap

OutputGate = Literal["none", "silu", "sigmoid"]
EPS = 1e-5
"""in the output norm, as in flash-linear-attention"""
L2_EPS = 1e-6
"""beside the squared length of queries and keys, as in flash-linear-attention"""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Parts of a layer around a recurrence; the options of the same names in `RecurrentAttention` change them."""

    convolution: int = 0
    activation: bool = False
    output_norm: bool = True
    output_gate: OutputGate = "none"
    key_expansion: float = 1.0
    value_expansion: float = 1.0
    normalization: Literal["none", "l2"] = "none"


class RecurrentOptions(AttentionOptions, total=False):
    """Options of every recurrence; see `RecurrentAttention`."""

    normalization: Normalization | None
    convolution: Natural | None
    activation: bool | None
    output_norm: bool | None
    output_gate: OutputGate | None
    key_expansion: Positive | None
    value_expansion: Positive | None
    bidirectional: bool
    fast: bool


@dataclass(frozen=True)
class RecurrentState(State):
    """The state after the tokens read so far, and the last inputs, which the next convolution reads."""

    sums: Float[Tensor, "B H K C"]
    recent: Float[Tensor, "B W E"]


class RecurrentAttention(Attention[RecurrentState]):
    """Attention by a recurrence; a subclass names its published `layer` and implements `log_decay` or `write`.

    Keys have further columns: the logarithms of the decays, then the write strength, as far as there are any.

    Args:
        d_model, n_heads, options: as in Attention.
        normalization: of queries and keys, after the activation or before it (placement); there is no denominator.
            None = the published one.
        convolution: width of the causal convolution of each column of queries, keys and values; 0 = none.
        activation: SiLU of queries, keys and values, after the convolution.
        output_norm: RMS norm of every head's output, with a gain.
        output_gate: factor of the output, of the inputs at its position.
        key_expansion, value_expansion: widths of all keys and of all values together, in shares of d_model.
        bidirectional: a bidirectional form, the sum over both directions.
        fast: whole sequences by the kernels of flash-linear-attention, on a GPU where fla-core is installed.

    None = as in `layer`, the published layer, whose projections have no biases (`attention_bias: false` in the yamls).
    `initialization` is of the projections of queries, keys, values and outputs.
    """

    layer: ClassVar[Layer] = Layer()
    supports_cross = False
    supports_step = True
    supports_rotation = True
    reads_normalization = ("kind", "placement", "eps", "only")
    limits: ClassVar[dict[str, dict[Any, list[str]]]] = {"bidirectional": {False: ["supports_bidirectional"]}}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.values_of_null = {name: value for name, value in asdict(cls.layer).items() if name != "normalization"}

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        normalization: Normalization | None = None,
        convolution: Natural | None = None,
        activation: bool | None = None,
        output_norm: bool | None = None,
        output_gate: OutputGate | None = None,
        key_expansion: Positive | None = None,
        value_expansion: Positive | None = None,
        bidirectional: bool = False,
        fast: bool = False,
        **options: Unpack[AttentionOptions],
    ) -> None:
        chosen: dict[str, Any] = {
            "convolution": convolution,
            "activation": activation,
            "output_norm": output_norm,
            "output_gate": output_gate,
            "key_expansion": key_expansion,
            "value_expansion": value_expansion,
        }
        # First, because make_projections needs it.
        require_heads(d_model, n_heads)
        self.parts = replace(self.layer, **{name: value for name, value in chosen.items() if value is not None})
        if misfit := self.misfit(d_model, n_heads, {**asdict(self.parts), "fast": fast}):
            raise ValueError(misfit)
        shares = self.parts.key_expansion, self.parts.value_expansion
        self.key_width, self.value_width = (round(share * d_model / n_heads) for share in shares)
        super().__init__(d_model, n_heads, **options)
        if self.positions is not None and self.key_width < 2:
            raise ValueError("rotary positions with keys of width 1: expected at least 2 columns to rotate")
        self.supports_bidirectional, self.fast = bidirectional, fast
        if self.parts.output_gate != "none":
            self.gate_proj = self.make_output_gate(d_model, n_heads * self.value_width)
        normalization = normalization or Normalization(kind=self.layer.normalization, eps=L2_EPS)
        self.norm_first = normalization.placement == "before_feature_map"
        self.q_norm, self.k_norm = norms_of(normalization, self.key_width)

    @classmethod
    def misfit(cls, d_model: int, n_heads: int, options: Mapping[str, Any]) -> str:
        for name in ("key_expansion", "value_expansion"):
            share = getattr(cls.layer, name) if options.get(name) is None else options[name]
            width = share * d_model / n_heads
            if abs(width - round(width)) > 1e-6 or round(width) < 1:
                heads = f"with d_model={d_model} and n_heads={n_heads} heads of width {width:g}"
                nearest = max(round(width), 1) * n_heads / d_model
                return f"{name}={share:g}: {heads}; expected a whole one; nearest: {nearest:g}"
        return missing_kernels() if options.get("fast") else ""

    def make_projections(self, d_model: int, bias: bool) -> None:
        keys, values = self.n_heads * self.key_width, self.n_heads * self.value_width
        self.q_proj, self.k_proj = (LinearMap(d_model, keys, bias=bias) for _ in range(2))
        self.v_proj, self.out_proj = LinearMap(d_model, values, bias=bias), LinearMap(values, d_model, bias=bias)
        if self.parts.convolution:
            columns = (keys, keys, values)
            convolutions = (ShortConvolution(width, self.parts.convolution) for width in columns)
            self.q_convolution, self.k_convolution, self.v_convolution = convolutions
        if self.parts.output_norm:
            self.output_gain = nn.Parameter(torch.ones(self.value_width))

    def make_output_gate(self, d_model: int, columns: int) -> nn.Module:
        """The map to the logits of the output gate."""
        return LinearMap(d_model, columns, bias=False)

    def log_decay(self, source: Memory) -> Float[Tensor, "#B H #M #K"] | None:
        """Logarithms (<= 0) of the decays of the state before each position is written; None = no decay."""
        return None

    def write(self, source: Memory) -> Float[Tensor, "B H M 1"] | None:
        """Write strength of the delta rule at each position; None = no delta rule."""
        return None

    def queries(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B H N K"]:
        return self._mixed("q", x)

    def keys_values(self, source: Memory) -> tuple[Float[Tensor, "B H M Q"], Float[Tensor, "B H M C"]]:
        """Keys with the columns of decay and write strength, and values."""
        k, more = self._mixed("k", source), (self.log_decay(source), self.write(source))
        columns = [x.expand(len(k), -1, k.shape[2], -1) for x in more if x is not None]
        return torch.cat((k, *columns), dim=-1), self._mixed("v", source)

    def key_heads(self, k: Float[Tensor, "B H M Q"]) -> Float[Tensor, "B H M K"]:
        return k[..., : self.key_width]

    def _mixed(self, kind: str, x: Tensor) -> Float[Tensor, "B H N _"]:
        """Heads of queries, keys or values: projected, convolved, activated, normalised."""
        x = getattr(self, f"{kind}_proj")(x)
        if self.parts.convolution:
            x = getattr(self, f"{kind}_convolution")(x)
        heads = heads_of(x, self.n_heads)[0]
        norm: nn.Module | None = getattr(self, f"{kind}_norm", None)
        if norm is not None and self.norm_first:
            heads = norm(heads)
        heads = F.silu(heads) if self.parts.activation else heads
        return heads if norm is None or self.norm_first else norm(heads)

    def _read(self, q: Tensor, k: Tensor, v: Tensor, first: int = 0) -> Recurrent:
        """Positions from `first` on, with the columns of the keys apart."""
        k, rest = k[..., : self.key_width], k[..., self.key_width :]
        q = q * self.key_width**-0.5
        if self.positions is not None:
            q, k = self.positions.queries(q, first), self.positions.keys(k, first)
        has_write = type(self).write is not RecurrentAttention.write
        decay, write = rest.split((rest.shape[-1] - has_write, int(has_write)), dim=-1)
        return Recurrent(q, k, v, decay if decay.shape[-1] else None, write if has_write else None)

    def attend(
        self,
        q: Float[Tensor, "B H N K"],
        k: Float[Tensor, "B H N Q"],
        v: Float[Tensor, "B H N C"],
        mask: KeyMask | None,
        causal: bool,
    ) -> Float[Tensor, "B H N C"]:
        dtype = v.dtype
        with full_precision(q, k, v) as (q, k, v):
            v = zero_at_padding(v, mask)
            read = self._read(q, k, v)
            read = read._replace(k=zero_at_padding(read.k, mask))
            out = self._sums(read)
            if not causal:
                # Padding comes first then: without keys the state stays 0.
                out = out + self._sums(read.reversed()).flip(2)
            return self.completed(out, v, dtype)

    def _sums(self, read: Recurrent) -> Float[Tensor, "B H N C"]:
        return kernel_sums(read) if self.fast else recurrent_sums(read)[0]

    def completed(
        self, out: Float[Tensor, "B H N C"], v: Float[Tensor, "B H N C"], dtype: torch.dtype
    ) -> Float[Tensor, "B H N C"]:
        """The output for `project_output`, from the sums and the values: in full precision where a norm follows."""
        return out if self.parts.output_norm else saturated(out, dtype)

    def project_output(self, out: Float[Tensor, "B H N C"], x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        if self.parts.output_norm:
            with full_precision(out, self.output_gain) as (out, gain):
                out = F.rms_norm(out, (self.value_width,), gain, EPS)
        joined = self.join_heads(out)
        if self.parts.output_gate != "none":
            # in full precision: without a norm the sums may be at the end of the range of float16
            with full_precision(joined, self.gate_proj(x)) as (joined, logits):
                joined = joined * (F.silu(logits) if self.parts.output_gate == "silu" else logits.sigmoid())
        return projected(self.out_proj, joined, x.dtype)

    def init_state(self, batch: int, memory: Memory | None = None, mask: KeyMask | None = None) -> RecurrentState:
        weight = self.v_proj.weight
        dtype = torch.promote_types(weight.dtype, torch.float32)
        sums = weight.new_zeros(batch, self.n_heads, self.key_width, self.value_width, dtype=dtype)
        return RecurrentState(0, sums, weight.new_zeros(batch, 0, self.d_model))

    def step(self, x: Float[Tensor, "B 1 E"], state: RecurrentState) -> tuple[Float[Tensor, "B 1 E"], RecurrentState]:
        inputs = torch.cat((state.recent, x), dim=1)
        heads = self.queries(inputs), *self.keys_values(inputs)
        with full_precision(*(each[:, :, -1:] for each in heads)) as (q, k, v):
            out, sums = recurrent_step(state.sums, self._read(q, k, v, state.position))
            out = self.completed(out, v, x.dtype)
        recent = recent_inputs(inputs, self.parts.convolution)
        return self.project_output(out, x), RecurrentState(state.position + 1, sums, recent)

    def state_after(self, x: Float[Tensor, "B N E"]) -> RecurrentState:
        heads = self.queries(x), *self.keys_values(x)
        with full_precision(*heads) as (q, k, v):
            sums = recurrent_sums(self._read(q, k, v))[1]
        return RecurrentState(x.shape[1], sums, recent_inputs(x, self.parts.convolution))

    def state_size(self, length: int) -> int:
        recent = min(length, max(self.parts.convolution - 1, 0))
        return self.n_heads * self.key_width * self.value_width + recent * self.d_model


class DeltaRuleOptions(RecurrentOptions, total=False):
    """Options of every delta rule; see `DeltaRuleAttention`."""

    beta_max: Literal[1, 2]


class DeltaRuleAttention(RecurrentAttention):
    """Attention by a delta rule, with write strengths beta_max sigmoid(W x).

    Args:
        d_model, n_heads, options: as in RecurrentAttention.
        beta_max: largest write strength; with 2 the eigenvalues of I - b k k^T are between -1 and 1 for keys of length
            1 (Grazzi et al. 2024, section 4), with 1 between 0 and 1.
    """

    def __init__(
        self, d_model: int, n_heads: int, *, beta_max: Literal[1, 2] = 1, **options: Unpack[RecurrentOptions]
    ) -> None:
        super().__init__(d_model, n_heads, **options)
        self.beta_max = beta_max
        self.write_proj = LinearMap(d_model, n_heads, bias=False)

    def write(self, source: Memory) -> Float[Tensor, "B H M 1"]:
        return self.beta_max * wide(self.split_heads(self.write_proj(source))).sigmoid()


def recent_inputs(inputs: Float[Tensor, "B N E"], width: int) -> Float[Tensor, "B W E"]:
    """The inputs that convolutions of this width read at the next position."""
    return inputs[:, max(inputs.shape[1] - max(width - 1, 0), 0) :]


class ShortConvolution(nn.Module):
    """Causal convolution of every column by itself, without a bias, initialised as torch's Conv1d.

    Args:
        columns: number of columns.
        width: positions that it reads, up to its own.
    """

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, columns).uniform_(-(width**-0.5), width**-0.5))

    def forward(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N E"]:
        """sum_w weight_w x_(i - width + 1 + w); zeros before the first position."""
        length = x.shape[1]
        first, *others = self.weight.unbind(0)
        padded = F.pad(x, (0, 0, len(others), 0))
        # On a CPU a third of the time of torch's grouped convolution at 10 positions, 1.3 times at 4,096.
        out = padded[:, :length] * first
        for w, weight in enumerate(others, start=1):
            out = torch.addcmul(out, padded[:, w : w + length], weight)
        return out
