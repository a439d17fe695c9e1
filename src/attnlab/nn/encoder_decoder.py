"""Sequence-to-sequence network: embeddings, encoder, decoder, output head."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.nn.embedding import TokenEmbedding
from attnlab.nn.layer_stack import DecodeState, LayerStack, mean_penalty
from attnlab.nn.output_head import Output, SequenceNetwork


class EncoderDecoder(SequenceNetwork):
    """Sequence-to-sequence network: encoder, causal decoder with cross-attention, logits over output tokens."""

    def __init__(
        self, source: TokenEmbedding, target: TokenEmbedding, encoder: LayerStack, decoder: LayerStack, output: Output
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
        memory, penalties = self.encoder(self.source_embedding(inputs), input_mask, False)
        x, more = self.decoder(self.target_embedding(read), read_mask, True, memory, input_mask)
        return self.output(x), mean_penalty(penalties + more, x)

    def start(self, inputs: Int[Tensor, "B S"], input_mask: Bool[Tensor, "B S"]) -> DecodeState:
        memory, _ = self.encoder(self.source_embedding(inputs), input_mask, False)
        return DecodeState(0, self.decoder.init_state(len(inputs), memory, input_mask))

    def step(self, tokens: Int[Tensor, " B"], state: DecodeState) -> tuple[Float[Tensor, "B V"], DecodeState]:
        x, layers = self.decoder.step(self.target_embedding(tokens[:, None], state.position), state.layers)
        return self.output(x)[:, 0], DecodeState(state.position + 1, layers)

    def state_size(self, length: int) -> int:
        """Size of the decoder's self-attention state of one example after `length` tokens, in numbers."""
        return self.decoder.state_size(length)
