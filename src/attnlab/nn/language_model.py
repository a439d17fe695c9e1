"""Causal and masked language models. Both return hidden states: logits of a whole batch over a word vocabulary would
not fit into memory, so the loss computes them in chunks (attnlab.kernels.cross_entropy)."""

import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlab.kernels.linear_map import LinearMap
from attnlab.nn.embedding import TokenEmbedding
from attnlab.nn.layer_stack import DecodeState, LayerStack, mean_penalty
from attnlab.nn.output_head import Network, Output


class LanguageModel(Network):
    """Causal language model: a decoder without cross-attention."""

    def __init__(self, embedding: TokenEmbedding, decoder: LayerStack, output: Output) -> None:
        super().__init__()
        self.embedding, self.decoder, self.output = embedding, decoder, output

    def forward(
        self, tokens: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B N E"], Float[Tensor, ""]]:
        """Hidden states, which `output` maps to logits, and the mean unweighted penalty."""
        x, penalties = self.decoder(self.embedding(tokens), mask, True)
        return x, mean_penalty(penalties, x)

    def start(self, batch: int) -> DecodeState:
        """The state before the first token."""
        return DecodeState(0, self.decoder.init_state(batch))

    def step(self, tokens: Int[Tensor, " B"], state: DecodeState) -> tuple[Float[Tensor, "B V"], DecodeState]:
        """Logits of the next token after reading `tokens`."""
        x, layers = self.decoder.step(self.embedding(tokens[:, None], state.position), state.layers)
        return self.output(x)[:, 0], DecodeState(state.position + 1, layers)

    def state_size(self, length: int) -> int:
        """Size of the self-attention state of one example after `length` tokens, in numbers."""
        return self.decoder.state_size(length)


class MaskedLanguageModel(Network):
    """Masked language model: an encoder, then a linear map, gelu and a norm before the output (RoBERTa)."""

    def __init__(
        self, embedding: TokenEmbedding, encoder: LayerStack, output: Output, norm: nn.Module, width: int
    ) -> None:
        super().__init__()
        self.embedding, self.encoder, self.output = embedding, encoder, output
        self.dense, self.norm = LinearMap(width, width), norm

    def forward(
        self, tokens: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B N E"], Float[Tensor, ""]]:
        """Hidden states, which `output` maps to logits, and the mean unweighted penalty."""
        x, penalties = self.encoder(self.embedding(tokens), mask, False)
        return self.norm(F.gelu(self.dense(x))), mean_penalty(penalties, x)
