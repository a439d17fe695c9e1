"""Network and training step of Csordas et al. 2021 on SCAN, as their published code computes them: a baseline of speed.

Read in github RobertCsordas/transformer_generalization (commit 65d1745) and written anew with plain torch modules:

attention  layers/transformer/multi_head_attention.py: one map for queries, one for keys and values, without biases;
           scores times 1/sqrt(head width), masked by -inf, softmax, dropout 0.1, products by `bmm`
layers     layers/transformer/transformer.py: post-norm, ReLU, dropout 0.1 after every part and inside the feed-forward
           part; the decoder masks the future, never padding; cross-attention masks the padding of the source
embedding  models/transformer_enc_dec.py, variant scaledinit: kaiming-normal, sinusoids / sqrt(width) from a table,
           dropout 0.1; the output map has the weights of the output embedding and a bias
loss       interfaces/transformer/encoder_decoder_interface.py: logits with time first, cross-entropy of every place,
           times the mask, sum / number of real tokens
step       tasks/task.py: rate set, gradients to None, finite loss asserted, norm of gradients clipped at 5, Adam at
           1e-3 with torch's defaults (not fused); sizes from main.py, profile trafo_scan

Left out, which favours it: their loader (a worker process), logging, and the start and end tokens that they add to each
batch; batches come as ours do.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.data.batch import SequenceBatch
from attnlab.data.task_spec import TaskSpec


@dataclass(frozen=True)
class PublishedSizes:
    """Profile trafo_scan. Its dropout option (0.5) reaches no module: the layers' default of 0.1 holds."""

    width: int = 128
    heads: int = 8
    layers: int = 3
    feed_forward: int = 256
    dropout: float = 0.1
    lr: float = 1e-3
    clip_norm: float = 5.0
    longest: int = 5000


class PublishedAttention(nn.Module):
    """Softmax attention with weights written out."""

    def __init__(self, sizes: PublishedSizes) -> None:
        super().__init__()
        width = sizes.width
        self.heads, self.head_width = sizes.heads, width // sizes.heads
        self.queries, self.merge = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.keys_values = nn.Linear(width, 2 * width, bias=False)
        self.dropout = nn.Dropout(sizes.dropout)
        for weight in (self.queries.weight, self.merge.weight, *self.keys_values.weight.data.chunk(2)):
            nn.init.xavier_uniform_(weight)

    def per_head(self, projected: Tensor, parts: int) -> tuple[Tensor, ...]:
        """[B, N, heads * parts * D] -> `parts` views [B * heads, N, D] of one copy; parts of a head are adjacent."""
        batch, length = projected.shape[:2]
        split = projected.view(batch, length, self.heads, parts, self.head_width).transpose(1, 2)
        return split.reshape(batch * self.heads, length, parts, self.head_width).unbind(2)

    def forward(self, x: Tensor, memory: Tensor, hidden: Tensor) -> Tensor:
        """Attention of x [B, N, E] to memory [B, M, E].

        Args:
            hidden: True where a key is not seen; [1, 1, N, M] or [B, 1, 1, M].
        """
        k, v = self.per_head(self.keys_values(memory), 2)
        (q,) = self.per_head(self.queries(x), 1)
        scores = torch.bmm(q, k.transpose(1, 2)) * self.head_width**-0.5
        by_head = scores.view(len(x), self.heads, *scores.shape[1:]).masked_fill(hidden, -math.inf)
        weights = self.dropout(F.softmax(by_head, -1).view_as(scores))
        read = torch.bmm(weights, v).view(len(x), self.heads, -1, self.head_width)
        return self.merge(read.transpose(1, 2).reshape(x.shape))


class PublishedLayer(nn.Module):
    """Layer of the encoder, or of the decoder with cross-attention."""

    def __init__(self, sizes: PublishedSizes, cross: bool) -> None:
        super().__init__()
        self.attention = PublishedAttention(sizes)
        self.cross = PublishedAttention(sizes) if cross else None
        self.inner, self.outer = (
            nn.Linear(sizes.width, sizes.feed_forward),
            nn.Linear(sizes.feed_forward, sizes.width),
        )
        self.inner_dropout = nn.Dropout(sizes.dropout)
        parts = 3 if cross else 2
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.width) for _ in range(parts))
        self.dropouts = nn.ModuleList(nn.Dropout(sizes.dropout) for _ in range(parts))
        nn.init.xavier_uniform_(self.inner.weight, gain=nn.init.calculate_gain("relu"))
        nn.init.xavier_uniform_(self.outer.weight)

    def forward(
        self, x: Tensor, hidden: Tensor, memory: Tensor | None = None, memory_hidden: Tensor | None = None
    ) -> Tensor:
        x = self.norms[0](x + self.dropouts[0](self.attention(x, x, hidden)))
        if self.cross is not None:
            x = self.norms[1](x + self.dropouts[1](self.cross(x, memory, memory_hidden)))
        out = self.outer(self.inner_dropout(F.relu(self.inner(x))))
        return self.norms[-1](x + self.dropouts[-1](out))


class PublishedNetwork(nn.Module):
    """Encoder and decoder with their embeddings and tied output."""

    sinusoids: Tensor

    def __init__(self, spec: TaskSpec, sizes: PublishedSizes) -> None:
        super().__init__()
        self.source = nn.Embedding(spec.input_vocabulary, sizes.width)
        self.target = nn.Embedding(spec.output_vocabulary, sizes.width)
        self.encoder = nn.ModuleList(PublishedLayer(sizes, cross=False) for _ in range(sizes.layers))
        self.decoder = nn.ModuleList(PublishedLayer(sizes, cross=True) for _ in range(sizes.layers))
        self.bias = nn.Parameter(torch.zeros(spec.output_vocabulary))
        self.dropout, self.end_id = nn.Dropout(sizes.dropout), spec.end_id
        for table in (self.source, self.target):
            nn.init.kaiming_normal_(table.weight)
        angles = torch.arange(sizes.longest)[:, None] * 10000 ** (-torch.arange(0, sizes.width, 2) / sizes.width)
        waves = torch.stack((angles.sin(), angles.cos()), -1).flatten(1) / math.sqrt(sizes.width)
        self.register_buffer("sinusoids", waves)

    def embed(self, tokens: Tensor, table: nn.Embedding) -> Tensor:
        return self.dropout(table(tokens) + self.sinusoids[: tokens.shape[1]])

    def forward(self, inputs: Tensor, input_lengths: Tensor, targets: Tensor) -> Tensor:
        """Logits [B, T, V] with teacher forcing."""
        length = targets.shape[1]
        padding = (torch.arange(inputs.shape[1], device=inputs.device) >= input_lengths[:, None])[:, None, None]
        future = torch.ones(length, length, dtype=torch.bool, device=inputs.device).triu(1)[None, None]
        memory = self.embed(inputs, self.source)
        for layer in self.encoder:
            memory = layer(memory, padding)
        x = self.embed(F.pad(targets[:, :-1], (1, 0), value=self.end_id), self.target)
        for layer in self.decoder:
            x = layer(x, future, memory, padding)
        return F.linear(x, self.target.weight, self.bias)

    def loss(self, batch: SequenceBatch) -> Tensor:
        """Mean cross-entropy of the real target tokens."""
        logits = self(batch.inputs, batch.input_lengths, batch.targets).transpose(0, 1)
        targets = batch.targets.transpose(0, 1)
        each = F.cross_entropy(logits.flatten(end_dim=-2), targets.flatten(), reduction="none").view_as(targets)
        real = torch.arange(len(targets), device=targets.device)[:, None] < batch.target_lengths
        return (each * real).sum() / real.sum()


def published_stepper(
    network: PublishedNetwork, sizes: PublishedSizes, batches: Iterator[SequenceBatch]
) -> Callable[[], Tensor]:
    """Returns a function that does one training step of the published code.

    Raises:
        FloatingPointError: on a call, if the loss is not finite.
    """
    optimizer = torch.optim.Adam(network.parameters(), sizes.lr, betas=(0.9, 0.999), weight_decay=0.0)
    network.train()

    def step() -> Tensor:
        batch = next(batches)
        for group in optimizer.param_groups:
            group["lr"] = sizes.lr
        optimizer.zero_grad(set_to_none=True)
        loss = network.loss(batch)
        if not torch.isfinite(loss):
            raise FloatingPointError("the loss of the published step is not finite")
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), sizes.clip_norm)
        optimizer.step()
        return loss

    return step
