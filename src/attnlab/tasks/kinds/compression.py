"""Compression (Poli et al. 2024): a causal network reads a sequence, and its last hidden state must hold all of it.

h is the hidden state of the last token, p_n a sinusoidal vector of place n. The logits of token n are

    W f(f(h + p_n)) + b,   f(x) = gelu(A norm(x) + a)

with a norm before W, as in github athms/mad-lab (mad/model/auto_encoder.py, 0f49a45). Sine and cosine of one frequency
lie side by side here, in two halves there. One example of a task of this kind:

    input   4 0 7 7
    target  4 0 7 7
"""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlab.attention.positions.sinusoidal import sinusoidal
from attnlab.kernels.linear_map import LinearMap
from attnlab.nn.embedding import TokenEmbedding
from attnlab.nn.layer_stack import LayerStack, mean_penalty
from attnlab.nn.network_parts import NetworkParts
from attnlab.nn.output_head import Network, Output
from attnlab.nn.transformer_block import make_norm
from attnlab.tasks.kinds.tagging import TaggingKind


class Autoencoder(Network):
    """Causal network whose last hidden state, and a place, say every token.

    Args:
        readout: from a hidden state with a place to the input of `output`.
    """

    def __init__(self, embedding: TokenEmbedding, decoder: LayerStack, readout: nn.Module, output: Output) -> None:
        super().__init__()
        self.embedding, self.decoder, self.readout, self.output = embedding, decoder, readout, output

    def forward(
        self, tokens: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B N E"], Float[Tensor, ""]]:
        """Hidden states of the readout, which `output` maps to logits, and the mean unweighted penalty."""
        x, penalties = self.decoder(self.embedding(tokens), mask, True)
        last = x[torch.arange(len(x), device=x.device), mask.sum(1) - 1]
        return self.readout(last[:, None] + sinusoidal(x.shape[1], x.shape[2], x)), mean_penalty(penalties, x)


class CompressionKind(TaggingKind):
    """All tokens of a sequence from its last hidden state: loss and accuracy over the positions with a target."""

    needs: ClassVar = {"decoder": ["causal"]}

    def network(self, parts: NetworkParts) -> Network:
        size, width, norm = self.spec.max_input_length, parts.backbone.d_model, parts.backbone.layer_norm
        layers = [layer for _ in range(2) for layer in (make_norm(norm, width), LinearMap(width, width), nn.GELU())]
        readout = nn.Sequential(*layers, make_norm(norm, width))
        embedding = parts.embedding(self.spec.input_vocabulary, size)
        return Autoencoder(embedding, parts.lone_decoder(size), readout, parts.output())
