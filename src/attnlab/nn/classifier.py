"""Classifiers: a class (or a number) for an image and a question, a token sequence, or a pair of token sequences."""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from attnlab.data.batch import Pictures
from attnlab.kernels.dropout import Dropout
from attnlab.kernels.linear_map import LinearMap
from attnlab.nn.embedding import ImageQuestionEmbedding, TokenEmbedding
from attnlab.nn.layer_stack import LayerStack, mean_penalty
from attnlab.nn.output_head import Network

Pooling = Literal["mean", "first", "class_token"]


class ImageQuestionClassifier(Network):
    """Classifier of an image and a question: class logits from the class token after the encoder."""

    def __init__(self, embedding: ImageQuestionEmbedding, encoder: LayerStack, n_classes: int, width: int) -> None:
        super().__init__()
        self.embedding, self.encoder, self.output = embedding, encoder, LinearMap(width, n_classes)

    def forward(
        self, images: Pictures, questions: UInt8[Tensor, "B question"]
    ) -> tuple[Float[Tensor, "B classes"], Float[Tensor, ""]]:
        """Class logits and the mean unweighted penalty."""
        x, penalties = self.encoder(self.embedding(images, questions), None, False, needed=1)
        return self.output(x[:, 0]), mean_penalty(penalties, x)


class SequenceEncoder(nn.Module):
    """Encoder of a token sequence into one vector.

    Args:
        pooling: mean: over real positions; first: the first position, where tasks put a start token; class_token: an
            additional first position with a learned vector.
    """

    def __init__(self, embedding: TokenEmbedding, encoder: LayerStack, width: int, pooling: Pooling) -> None:
        super().__init__()
        self.embedding, self.encoder, self.pooling = embedding, encoder, pooling
        if pooling == "class_token":
            self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, width))

    def forward(
        self, tokens: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B E"], list[Float[Tensor, ""]]]:
        """The pooled vector, and the penalties of the attentions that have one."""
        x = self.embedding(tokens)
        if self.pooling == "class_token":
            x = torch.cat((self.class_token.expand(len(x), -1, -1).to(x.dtype), x), dim=1)
            mask = torch.cat((mask.new_ones(len(mask), 1), mask), dim=1)
        x, penalties = self.encoder(x, mask, False, needed=None if self.pooling == "mean" else 1)
        if self.pooling != "mean":
            return x[:, 0], penalties
        # in float32 at least: half precision loses too many digits in sums over thousands of positions
        summed = x.masked_fill(~mask[..., None], 0.0).sum(1, dtype=torch.promote_types(x.dtype, torch.float32))
        return (summed / mask.sum(1, keepdim=True).clamp(min=1)).to(x.dtype), penalties


class ClassHead(nn.Sequential):
    """Class logits from a vector: one linear map, or two with a relu between.

    Args:
        width: of the input vector.
        hidden: inner width; None = one map.
        dropout: rate before the last map.
    """

    def __init__(self, width: int, hidden: int | None, n_classes: int, dropout: float) -> None:
        inner = [] if hidden is None else [LinearMap(width, hidden), nn.ReLU()]
        super().__init__(*inner, Dropout(dropout), LinearMap(hidden or width, n_classes))


class PooledClassifier(Network):
    """Base class of classifiers with an encoder of token sequences and a head."""

    def __init__(self, encoder: SequenceEncoder, head: ClassHead) -> None:
        super().__init__()
        self.sequence, self.head = encoder, head


class SequenceClassifier(PooledClassifier):
    """Classifier of a token sequence."""

    def forward(
        self, tokens: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B classes"], Float[Tensor, ""]]:
        """Class logits and the mean unweighted penalty."""
        x, penalties = self.sequence(tokens, mask)
        return self.head(x), mean_penalty(penalties, x)


class PairClassifier(PooledClassifier):
    """Classifier of a pair of token sequences: one encoder gives a and b, the head reads [a, b, a * b, a - b], four
    times as wide (Nangia & Bowman 2018, as in LRA's retrieval task).
    """

    def forward(
        self,
        tokens: Int[Tensor, "B N"],
        mask: Bool[Tensor, "B N"],
        others: Int[Tensor, "B M"],
        other_mask: Bool[Tensor, "B M"],
    ) -> tuple[Float[Tensor, "B classes"], Float[Tensor, ""]]:
        """Class logits and the mean unweighted penalty over both sequences."""
        a, penalties = self.sequence(tokens, mask)
        b, more = self.sequence(others, other_mask)
        return self.head(torch.cat((a, b, a * b, a - b), dim=-1)), mean_penalty(penalties + more, a)
