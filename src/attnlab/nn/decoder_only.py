"""Sequence-to-sequence network without an encoder: input and output are one sequence of a causal decoder."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.data.batch import length_mask
from attnlab.nn.embedding import TokenEmbedding
from attnlab.nn.layer_stack import DecodeState, LayerStack, mean_penalty
from attnlab.nn.output_head import Output, SequenceNetwork


class DecoderOnly(SequenceNetwork):
    """Sequence-to-sequence network of one causal decoder.

    It reads the input, then the separator (the end token of the outputs), then the output, then padding. Positions are
    counted over all of it. Input and output have different embeddings: output ids follow the input ids.

    Args:
        embedding: of input ids, then output ids.
        output: logits over the output ids, or over all ids of the embedding.
        n_outputs: number of output ids.
        longest_input: longest input with framing tokens, for the size of the state.
        bidirectional: all positions of the input see each other, not the separator and the output.
    """

    def __init__(
        self,
        embedding: TokenEmbedding,
        decoder: LayerStack,
        output: Output,
        n_outputs: int,
        longest_input: int,
        bidirectional: bool,
    ) -> None:
        super().__init__()
        self.embedding, self.decoder, self.output = embedding, decoder, output
        self.n_outputs, self.longest_input, self.bidirectional = n_outputs, longest_input, bidirectional
        self.n_inputs = embedding.table.num_embeddings - n_outputs

    def forward(
        self,
        inputs: Int[Tensor, "B S"],
        input_mask: Bool[Tensor, "B S"],
        read: Int[Tensor, "B T"],
        read_mask: Bool[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T V"], Float[Tensor, ""]]:
        tokens, mask, places = self._one_sequence(inputs, input_mask, read, read_mask)
        prefix_mask = input_mask if self.bidirectional else None
        x, penalties = self.decoder(self.embedding(tokens), mask, True, prefix_mask=prefix_mask)
        x = x.gather(1, places[:, :, None].expand(-1, -1, x.shape[2]))
        return self._logits(x), mean_penalty(penalties, x)

    def _one_sequence(
        self, inputs: Tensor, input_mask: Tensor, read: Tensor, read_mask: Tensor
    ) -> tuple[Int[Tensor, "B N"], Bool[Tensor, "B N"], Int[Tensor, "B T"]]:
        """Rows of input and output without a gap, their padding mask, and the places of `read` in them."""
        source, written = inputs.shape[1], read.shape[1]
        size = source + written
        lengths = input_mask.sum(1)
        columns = torch.arange(size, device=inputs.device)
        # of the tables side by side: column n of the input, or column n - length of the output
        after = source + (columns - lengths[:, None]).clamp(max=written - 1)
        chosen = torch.where(columns < lengths[:, None], columns, after)
        tokens = torch.cat((inputs, read + self.n_inputs), dim=1).gather(1, chosen)
        places = lengths[:, None] + columns[:written]
        return tokens, length_mask(lengths + read_mask.sum(1), size), places

    def _logits(self, x: Float[Tensor, "B N E"]) -> Float[Tensor, "B N V"]:
        return self.output(x)[..., -self.n_outputs :]

    def start(self, inputs: Int[Tensor, "B S"], input_mask: Bool[Tensor, "B S"]) -> "GroupedState":
        lengths, groups = input_mask.sum(1), []
        for length in lengths.unique().tolist():
            [rows] = (lengths == length).nonzero(as_tuple=True)
            x = self.embedding(inputs[rows, :length])
            layers = self.decoder.prefill(x, self.bidirectional) if length else self.decoder.init_state(len(rows))
            groups.append((rows, DecodeState(length, layers)))
        return GroupedState(0, groups)

    def step(self, tokens: Int[Tensor, " B"], state: "GroupedState") -> tuple[Float[Tensor, "B V"], "GroupedState"]:
        logits, groups = list[Tensor](), []
        for rows, group in state.groups:
            x = self.embedding(tokens[rows, None] + self.n_inputs, group.position)
            x, layers = self.decoder.step(x, group.layers)
            logits.append(self._logits(x)[:, 0])
            groups.append((rows, DecodeState(group.position + 1, layers)))
        order = torch.cat([rows for rows, _ in groups]).argsort()
        return torch.cat(logits)[order], GroupedState(state.position + 1, groups)

    def state_size(self, length: int) -> int:
        """Size of the state of one example after the longest input and `length` output tokens, in numbers."""
        return self.decoder.state_size(self.longest_input + length)


@dataclass(frozen=True)
class GroupedState:
    """State of incremental decoding of rows with inputs of different lengths.

    position: number of output tokens read.
    groups: the rows with inputs of one length, by their numbers in the batch, and their state.
    """

    position: int
    groups: Sequence[tuple[Int[Tensor, " _"], DecodeState]]

    def select(self, rows: Int[Tensor, " K"] | Bool[Tensor, " B"]) -> "GroupedState":
        """The state of some rows of the batch, in the order given."""
        chosen = rows.nonzero()[:, 0] if rows.dtype == torch.bool else rows
        groups = []
        for old, state in self.groups:
            before, after = (old[:, None] == chosen).nonzero(as_tuple=True)
            if len(after):
                groups.append((after, state.select(before)))
        return GroupedState(self.position, groups)
