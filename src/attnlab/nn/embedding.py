"""Embeddings: from the input of a task to the residual stream."""

import math

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from attnlab.attention.positions.base import Positions
from attnlab.config.schema import Embedding
from attnlab.data.batch import Pictures
from attnlab.kernels.dropout import Dropout
from attnlab.kernels.linear_map import LinearMap, linear


class TokenEmbedding(nn.Module):
    """Token embeddings, plus positional encodings that are added to them.

    noscale:             N(0, 1) (Csordas et al. 2021, section 3.2, also the next two).
    upscale_tokens:      xavier-uniform, times sqrt(width) ("token embedding up-scaling").
    downscale_positions: kaiming-normal, positions times 1 / sqrt(width) ("position embedding down-scaling").
    xavier:              xavier-uniform, unscaled (Csordas et al. with relative positions).
    upscale_normal:      N(0, 1 / width), times sqrt(width) (fairseq's language models).
    small:               N(0, 0.02^2), like learned positions (BERT, Skyformer).
    upscale_small:       N(0, 0.02^2) within two standard deviations, times sqrt(width) (Deletang et al. 2023).

    Args:
        vocabulary: number of token ids.
        width: model width E.
        longest: length of the longest sequence.
    """

    def __init__(
        self, vocabulary: int, width: int, variant: Embedding, positions: Positions, longest: int, dropout: float
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.token_scale = math.sqrt(width) if variant.startswith("upscale") else 1.0
        self.dropout = Dropout(dropout)
        # the name of learned positions in checkpoints
        scale = width**-0.5 if variant == "downscale_positions" else 1.0
        self.learned = positions.in_embeddings(longest, width, scale)
        if variant == "downscale_positions":
            nn.init.kaiming_normal_(self.table.weight)
        elif variant in ("upscale_tokens", "xavier"):
            nn.init.xavier_uniform_(self.table.weight)
        elif variant == "upscale_small":
            nn.init.trunc_normal_(self.table.weight, std=0.02, a=-0.04, b=0.04)
        elif variant != "noscale":
            nn.init.normal_(self.table.weight, std=0.02 if variant == "small" else width**-0.5)

    def forward(self, tokens: Int[Tensor, "B N"], first: int = 0) -> Float[Tensor, "B N E"]:
        """Embeddings of tokens at positions first, first + 1, ..."""
        x = self.table(tokens) * self.token_scale
        if self.learned is not None:
            x = x + self.learned(x, first)
        return self.dropout(x)


class ImageQuestionEmbedding(nn.Module):
    """Input of sort-of-CLEVR after Mittal et al. 2022: a learned class token and 5 x 5 patches of 15 x 15 pixels.

    Tokens and question have half the model width each; the question is concatenated to every token, and a linear map
    follows.

    Args:
        image_shape: height, width, channels; height and width multiples of `patch`.
        question_size: size of the question vector.
        width: model width E, even.
        positions: may add a table to the patches.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        question_size: int,
        width: int,
        positions: Positions,
        dropout: float,
        patch: int = 15,
    ) -> None:
        super().__init__()
        half = width // 2
        self.patches = nn.Conv2d(image_shape[2], half, kernel_size=patch, stride=patch)
        self.question = LinearMap(question_size, half)
        self.class_token = nn.Parameter(torch.randn(1, 1, half))
        self.mapping = LinearMap(2 * half, width)
        self.positions, self.dropout = positions, Dropout(dropout)
        self.n_tokens = 1 + (image_shape[0] // patch) * (image_shape[1] // patch)

    def forward(self, images: Pictures, questions: UInt8[Tensor, "B question"]) -> Float[Tensor, "B N E"]:
        """Class token first, then the patches row by row."""
        dtype = self.class_token.dtype
        x = self._of_patches(images, dtype)
        if (table := self.positions.of_patches(x)) is not None:
            x = x + table
        x = torch.cat((self.class_token.expand(len(x), -1, -1).to(x.dtype), x), dim=1)
        question = self.question(questions.to(dtype))[:, None].expand(-1, x.shape[1], -1)
        return self.dropout(self.mapping(torch.cat((x, question), dim=-1)))

    def _of_patches(self, images: Pictures, dtype: torch.dtype) -> Float[Tensor, "B patches half"]:
        """The convolution `patches`, whose windows do not overlap, as one matrix product over the patches."""
        cut = torch.ops.attnlab.patches if torch.compiler.is_compiling() and images.device.type == "cpu" else _patches
        x = cut(images, self.patches.kernel_size[0], dtype)
        # rows, columns, channels, as in the pictures
        return linear(x, self.patches.weight.permute(0, 2, 3, 1).flatten(1), self.patches.bias)


def _patches(images: Pictures, size: int, dtype: torch.dtype) -> Float[Tensor, "B patches pixels"]:
    """Squares of size x size pixels, row by row; bytes become numbers from 0 to 1, other numbers stay."""
    windows = images.unflatten(2, (-1, size)).unflatten(1, (-1, size)).transpose(2, 3)
    x = windows.flatten(3).flatten(1, 2).to(dtype)
    return x if images.is_floating_point() else x.div_(255)


torch.library.define("attnlab::patches", "(Tensor images, int size, ScalarType dtype) -> Tensor")
"""`_patches` in compiled steps on a CPU, where inductor's own code takes 2.5 times as long"""


@torch.library.impl("attnlab::patches", "cpu")
@torch.library.register_fake("attnlab::patches")
def _(images: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    # an operator returns no view of its argument
    return _patches(images.clone() if images.is_floating_point() else images, size, dtype)
