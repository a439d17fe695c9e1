"""Sequence to sequence: embeddings, encoder, decoder, output; and what other models share of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnlab.nn.backbone import Stack, select_rows
from attnlab.nn.embedding import TokenEmbedding


class Output(nn.Module):
    """Logits over the output vocabulary; the weights are the embedding's when tied, the bias is its own.

    Args:
        never: ids that are no target (`TaskSpec.never_targets`). Their bias is read as the smallest number there is: so
            they have no part in a softmax, are never chosen, and pass no gradient on.
    """

    def __init__(
        self, width: int, vocabulary: int, tied: TokenEmbedding | None, xavier: bool, never: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self.linear = nn.Linear(width, vocabulary)
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
        return self.linear.weight

    @property
    def bias(self) -> Float[Tensor, " V"]:
        """That of `linear`, with ids hidden that are never a target."""
        # Not -inf: the chunked loss multiplies it by a gradient of 0.
        return self.linear.bias.masked_fill(self.never_mask, torch.finfo(self.linear.bias.dtype).min)

    def forward(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N V"]:
        return F.linear(x, self.weight, self.bias)


def mean_penalty(penalties: list[Tensor], like: Tensor) -> Float[Tensor, ""]:
    """Mean over the attentions that have a penalty; zero where none has."""
    return torch.stack(penalties).mean() if penalties else like.new_zeros(())


class Undecoded(nn.Module):
    """A network that writes nothing."""

    def state_size(self, length: int) -> int:
        """0: nothing is decoded."""
        return 0


@dataclass(frozen=True)
class DecodeState:
    """Where decoding stands: number of tokens read, and the states of all layers."""

    position: int
    layers: list[tuple]

    def select(self, rows: Tensor) -> "DecodeState":
        return DecodeState(self.position, select_rows(self.layers, rows))


class EncoderDecoder(nn.Module):
    """Sequence to sequence: encoder, causal decoder with cross-attention, logits over output tokens."""

    def __init__(
        self, source: TokenEmbedding, target: TokenEmbedding, encoder: Stack, decoder: Stack, output: Output
    ) -> None:
        super().__init__()
        self.source_embedding, self.target_embedding = source, target
        self.encoder, self.decoder, self.output = encoder, decoder, output

    def forward(
        self,
        inputs: Int[Tensor, "B S"],
        input_mask: Bool[Tensor, "B S"],
        read: Int[Tensor, "B T"],
        read_mask: Bool[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, ""]]:
        """Teacher forcing.

        Args:
            inputs, input_mask: source tokens, framed, and which are real.
            read: what the decoder reads: the end token, then the target without its last.

        Returns:
            logits of the target tokens, and the mean unweighted penalty.
        """
        memory, penalties = self.encoder(self.source_embedding(inputs), input_mask, False)
        x, more = self.decoder(self.target_embedding(read), read_mask, True, memory, input_mask)
        return self.output(x), mean_penalty(penalties + more, x)

    def start(self, inputs: Int[Tensor, "B S"], input_mask: Bool[Tensor, "B S"]) -> DecodeState:
        """Encode the source; the state before the first output token."""
        memory, _ = self.encoder(self.source_embedding(inputs), input_mask, False)
        return DecodeState(0, self.decoder.init_state(len(inputs), memory, input_mask))

    def step(self, tokens: Int[Tensor, " B"], state: DecodeState) -> tuple[Float[Tensor, "B V"], DecodeState]:
        """Logits of the next token after reading `tokens`."""
        x, layers = self.decoder.step(self.target_embedding(tokens[:, None], state.position), state.layers)
        return self.output(x)[:, 0], DecodeState(state.position + 1, layers)

    def state_size(self, length: int) -> int:
        """Numbers the decoder's self-attention holds for one example after `length` tokens."""
        return self.decoder.state_size(length)
