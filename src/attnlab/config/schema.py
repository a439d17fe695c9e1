"""The typed configuration, without torch. The classes of task and attentions type the arguments of their `_target_`."""

from collections.abc import Iterator
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

from attnlab.config.dotted_keys import join
from attnlab.config.report_block import Report
from attnlab.config.validation.ranges import (
    Count,
    Depth,
    Natural,
    NonNegative,
    Passes,
    Positive,
    Probability,
    Threads,
    Width,
)

Pattern = Literal["sequential", "alternating", "parallel", "sequential_reversed", "alternating_reversed"]
Embedding = Literal[
    "noscale", "upscale_tokens", "upscale_normal", "downscale_positions", "xavier", "small", "upscale_small"
]
OrthoForm = Literal["frobenius", "frobenius_unsquared", "unnormalized", "unnormalized_unsquared", "absolute_cosine"]
OrthoValues = Literal["per_head", "full_width"]


@dataclass(kw_only=True)
class Backbone:
    """Sizes and wiring of the transformer around the attention; owned by `conf/task/*`."""

    d_model: Width
    """width of the residual stream"""
    n_heads: Width
    """attention heads; must divide d_attention"""
    n_layers: Depth
    """layers of the encoder (with share_layers: how often its one layer is applied)"""
    n_decoder_layers: Depth | None = None
    """layers of the decoder; null = n_layers"""
    d_attention: Width | None = None
    """width of queries, of keys and of values, all heads together; null = d_model"""
    d_feed_forward: Width
    """inner width of the feed-forward part"""
    dropout: Probability
    """after the first and after the second feed-forward map"""
    feed_forward_dropout: Probability | None = None
    """after the first feed-forward map, instead of dropout; null = dropout"""
    attention_dropout: Probability
    """on softmax attention weights"""
    attention_output_dropout: Probability
    """on the output of attention, before the residual sum"""
    embedding_dropout: Probability
    """on embeddings after positions are added"""
    architecture: Literal["encoder_decoder", "decoder_only"] = "encoder_decoder"
    """of sequence-to-sequence tasks: an encoder and a decoder, or a decoder that reads the input before the output"""
    prefix: Literal["causal", "bidirectional"] = "causal"
    """with architecture=decoder_only, what a position of the input sees: the input before it, or all of the input"""
    share_layers: bool = False
    """one layer (of each group) applied n_layers times: Universal Transformer without halting"""
    norm_placement: Literal["pre", "post"]
    """layer norm before each part (pre) or after each residual sum (post)"""
    final_norm: bool = False
    """one more layer norm after the last layer (usual with pre)"""
    layer_norm: Literal["layer_norm", "rms_norm"] = "layer_norm"
    """kind of the norms between parts"""
    feed_forward: Literal["relu", "gelu", "glu", "none"] = "relu"
    """relu and gelu: two maps; glu: (swish(W1 x) * W2 x) W3; none: layers have no feed-forward part"""
    positions: str
    """sinusoidal, learned (up to the task's longest sequence): added to embeddings; relative, rotary, alibi, t5: inside
    scores; none; any other file of attention/positions, or the dotted path of a class"""
    embedding: Embedding = "noscale"
    """initialisation and scale of token embeddings (nn.embedding); ignored for inputs that are no tokens"""
    pooling: Literal["mean", "first", "class_token"] = "mean"
    """input of a classifier of tokens: mean over real positions, first position, or a learned extra position"""
    d_classifier: Width | None = None
    """width of a hidden layer before the class logits; null = none"""
    tied_output: bool = False
    """output layer shares the output embedding's weights"""
    attention_bias: bool = True
    """biases in the query, key, value and output projections"""
    initialization: Literal["xavier", "torch", "normal", "normal_residual"] = "torch"
    """xavier: Xavier-uniform projections (Csordas et al.); torch: PyTorch's defaults (Mittal et al.); normal: standard
    deviation 0.02 and zero biases in all linear maps of the network (BERT, RoBERTa); normal_residual: the
    same, and 0.02 / sqrt(2 layers) in the last map of attentions and feed-forward parts (GPT-2, zoology)"""


@dataclass(kw_only=True)
class Optim:
    """Optimiser; owned by `conf/task/*`."""

    name: Literal["adam", "adamw"] = "adam"
    """adamw: weight decay apart from the gradient (Loshchilov & Hutter 2019)"""
    lr: Positive
    """peak learning rate"""
    betas: list[Probability] = field(default_factory=lambda: [0.9, 0.999])
    """decay of the running means of the gradient and of its square"""
    eps: Positive = 1e-8
    """added to the root of the mean square in the denominator"""
    weight_decay: NonNegative = 0.0
    """factor of the weights in their decay"""
    clip_norm: Positive | None = None
    """limit of the norm of all gradients together; null = none"""
    clip_value: Positive | None = None
    """largest allowed magnitude of each gradient entry; null = no clipping"""
    schedule: Literal["constant", "one_cycle", "one_cycle_linear", "linear", "cosine", "inverse_sqrt"] = "constant"
    """after the warm-up the rate stays, or falls: one_cycle, one_cycle_linear: to almost 0 by a cosine or on a line
    (as torch's OneCycleLR, which warms up from lr / 25); linear, cosine: to 0; inverse_sqrt: by 1 / sqrt(step)"""
    warmup_steps: Natural | None = None
    """steps over which the rate rises from 0; null = warmup_share of all steps"""
    warmup_share: Probability | None = None
    """null = 0 (one_cycle: 0.3)"""


@dataclass(kw_only=True)
class Train:
    """Length of training, batches, model selection; owned by `conf/task/*`."""

    max_steps: Count | None
    """optimiser steps; null = as many as max_epochs says"""
    max_epochs: Passes | None = None
    """passes over the training data, if max_steps is null"""
    batch_size: Count
    """examples a batch; with batch_tokens, the most"""
    batch_tokens: Count | None = None
    """largest number of padded tokens in a batch (inputs and outputs); null = batch_size examples of any length"""
    bucket_window: Count | None = None
    """number of random batches whose examples are sorted by length together, to reduce padding; null = none"""
    eval_batch_size: Count
    """examples per batch in evaluation; no effect on results"""
    eval_batches: Count | None = None
    """for a quick test: number of random batches of each subset that are evaluated; null = the whole subset"""
    precision: Literal["32-true", "bf16-mixed", "16-mixed", "64-true"] = "32-true"
    """number format, in Lightning's words"""
    tf32: Literal[True] | None = None
    """float32 products in TensorFloat-32 on a GPU: factors of 10 bits, sums of 23; null = exact; no effect on a CPU"""
    max_tokens: Count | None = None
    """most padded tokens of a forward pass: a larger batch is split, with the same gradient; null = no limit"""
    accumulate: Annotated[int, "[1, inf) up to 1e5"] = 1
    """batches that make one step: exactly as one batch of so many times batch_size examples, in at least as many
    pieces as with max_tokens"""
    log_every: Count = 50
    """steps between two rows of training metrics"""
    checkpoint_every: Count = 1000
    """steps between two checkpoints; a killed run loses at most this many"""
    validate_every: Count | Literal["epoch"] | None = None
    """steps between two validations; epoch = after each pass over the data; null = the task has no validation set"""
    selection: Literal["last_step", "best_validation"] = "last_step"
    """which weights are tested: of the last step, or of the best validation (by the task's first metric)"""
    paper_rule: Literal["best_validation_per_group"] | None = None
    """also report test_paper_rule/... by the published selection rule: the best validation for each kind of question"""
    test_curve_every: Count | None = None
    """steps between two additional evaluations on the test set, as test_curve/... (never for selection); null = none"""
    diagnose_every: Count | None = None
    """steps between two measurements of every attention on 64 examples of the validation data: norms, cosines, weights
    (docs/metrics.md); null = none"""


def steps_of(train: Train) -> int:
    """`train.max_steps`, once it is computed where the configuration counts epochs (`run.fit.with_steps`).

    Raises:
        ValueError: it is null.
    """
    if train.max_steps is None:
        raise ValueError("train.max_steps=null: the steps of train.max_epochs are not computed yet")
    return train.max_steps


def piece_tokens(train: Train) -> int | None:
    """Most padded tokens of a forward pass; of accumulated batches it takes no more than one batch may have."""
    limits = [train.max_tokens, train.batch_tokens if train.accumulate > 1 else None]
    return min((limit for limit in limits if limit is not None), default=None)


@dataclass(kw_only=True)
class Normalization:
    """Normalisation of queries and keys (Park & Kim 2024)."""

    kind: Literal["none", "l1", "l2", "rms"] = "none"
    """norm that divides queries and keys, per head: none, l1, l2, rms"""
    placement: Literal["after_feature_map", "before_feature_map"] = "after_feature_map"
    """whether features are normalised, or queries and keys before the feature map"""
    denominator: bool = True
    """keep linear attention's own denominator"""
    eps: Positive | None = None
    """added to the sum (l1), or under the root to the sum (l2) or mean (rms) of squares; null = 1e-6, for l2 1e-12"""
    only: Literal["queries", "keys"] | None = None
    """normalise only the queries, or only the keys; null = both"""


@dataclass(kw_only=True)
class Ortho:
    """Orthogonality loss on values (Park & Kim 2024)."""

    weight: NonNegative = 0.0
    """factor of the loss; 0 = not computed"""
    where: list[Literal["encoder", "decoder", "cross"]] = field(default_factory=list)
    """attentions that it covers; empty = this model has no such loss"""
    form: OrthoForm | None = None
    """null: mean squared cosine; frobenius: their sum; unnormalized: |V V^T - I|^2; *_unsquared: roots of these two;
    absolute_cosine: mean |cosine|; how weights convert: attention/core/orthogonality_loss.py"""
    values: OrthoValues = "per_head"
    """per_head: each head by itself; full_width: all heads of a position as one vector"""


@dataclass(kw_only=True)
class LayerGroup:
    """A share of the depth with one kind of attention."""

    share: Annotated[float, "[0, 1]"] | None
    """0 = no layer; null (for at most one group) = the rest that the other groups leave"""
    attention: dict[str, Any]
    """class of the attention (_target_) and its options"""


@dataclass(kw_only=True)
class Model:
    """Attention of every layer; owned by `conf/model/*`; never sizes or steps."""

    name: str
    """name of the yaml file"""
    mechanism: dict[str, Any] | None = None
    """the attention of the model: class (_target_) and options; slots and presets refer to it as ${model.mechanism}"""
    encoder: list[LayerGroup]
    """groups of layers, first to last, with their shares of the depth; self-attention"""
    pattern: Pattern = "sequential"
    """sequential: one group after another; alternating: in turn; parallel: all at once; *_reversed: last group first"""
    decoder: list[LayerGroup] | None = None
    """the same for the decoder, with causal self-attention; the encoder's if a yaml has no such key; null = none"""
    cross: dict[str, Any] | None = None
    """the decoder's attention to the encoder; null = the mechanism"""
    feed_forward: Literal["relu", "gelu", "glu", "none"] | None = None
    """null = the backbone's"""
    layer_norm: Literal["layer_norm", "rms_norm"] | None = None
    """null = the backbone's"""
    positions: str | None = None
    """null = the backbone's"""
    share_layers: bool | None = None
    """null = the backbone's"""
    embedding_dropout: Probability | None = None
    """null = the backbone's"""
    attention_bias: bool | None = None
    """null = the backbone's"""
    normalization: Normalization = field(default_factory=Normalization)
    ortho: Ortho = field(default_factory=Ortho)


@dataclass(kw_only=True)
class TrainerOptions:
    """Options of the hardware; no part of a run's identity."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU where there is one"""
    devices: Threads | Literal["auto"] = 1
    """processes on each machine, a GPU each; auto: as torchrun or srun started, else all GPUs here"""
    nodes: Threads | Literal["auto"] = 1
    """machines; auto: as torchrun or srun started"""
    workers: Annotated[int, "[0, inf) up to 4096"] = 0
    """additional processes that load data; unused if the data is on the device"""
    data_on_device: bool | Literal["auto"] = "auto"
    """gather batches on the device; auto: if it is a GPU and the data takes at most a quarter of its free memory"""
    threads: Threads | None = None
    """CPU threads; null = as torch or OMP_NUM_THREADS says"""
    deterministic: bool = True
    """equal seeds give equal numbers on a GPU; false allows faster kernels that add in any order"""
    compile: bool = False
    """compile each training step, lengths padded to a few sizes; each size takes about a minute to compile"""
    resume_with_new_code: bool = False
    """go on from a checkpoint that other code has made, which is refused otherwise; both are recorded"""
    progress: Literal["auto", "bar", "lines", "none"] = "auto"
    """auto: a live bar in a terminal, occasional lines in a file"""


@dataclass(kw_only=True)
class LoggerOptions:
    """Destination of metrics besides metrics.csv, which is always written."""

    name: Literal["csv", "wandb_offline", "wandb_online"]
    """csv: metrics.csv alone; wandb_offline: also a wandb run in paths.runs; wandb_online: also on the server"""
    project: str = "attnlab"
    """project of wandb"""
    entity: str | None = None
    """user or team of wandb; null = the account's default"""
    figures_every: Count | None = None
    """steps between two sets of figures of the attentions, into figures/step<k> and to wandb; null = none"""


@dataclass(kw_only=True)
class Paths:
    """Folders; no part of a run's identity."""

    data: str
    """official files; may be read-only; `~` works in all paths"""
    cache: str
    """files derived from the official ones"""
    runs: str
    """run folders"""


@dataclass(kw_only=True)
class Cost:
    """A guess of what a run costs, for `--plan` where no step has been measured; no part of a run's identity."""

    ms_a_step: list[Positive] | None = None
    """milliseconds of a training step of a run by itself at these sizes: `[8]`, or the least and the most, `[8,16]`"""
    steps_of_epochs: Count | None = None
    """steps of a run whose number `train.max_epochs` leaves to the data"""
    hardware: str = "H100-class GPU"
    """the device of the guess"""


@dataclass(kw_only=True)
class Config:
    """The whole configuration. `task` holds `_target_`, `name`, `label` and the arguments of the task's class."""

    seed: Annotated[int, "[0, 4294967295]"]
    """initialisation, data order and dropout; never the data"""
    task: dict[str, Any]
    backbone: Backbone
    model: Model
    optim: Optim
    train: Train
    trainer: TrainerOptions
    logger: LoggerOptions
    paths: Paths
    cost: Cost = field(default_factory=Cost)
    from_run: str | None = None
    """run folder for a warm start: training begins with its weights, as far as both networks have them"""
    experiment: str | None = None
    """set by experiment=...: the preset that names of run folders are shortened by; it changes no number"""
    debug: str | None = None
    """set by debug=...: the results of this run are meaningless, and report.py runs=... leaves it out"""
    report: Report | None = None  # of an experiment: the table and figures of its runs


@cache
def schema_keys() -> frozenset[str]:
    """All keys of the schema; inside `task` and attentions, keys belong to the `_target_` classes."""
    return frozenset(_schema_keys(Config, ""))


def _schema_keys(kind: Any, key: str) -> Iterator[str]:
    for name, inner in get_type_hints(kind, include_extras=True).items():
        if is_dataclass(inner):
            yield from _schema_keys(inner, join(key, name))
        else:
            yield join(key, name)
