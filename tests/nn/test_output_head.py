"""Output layers: weights shared with the embedding, initial values."""

import math

import torch
from support.model_cases import network_of

from attnlab.attention.positions.none import NonePositions
from attnlab.nn.embedding import TokenEmbedding
from attnlab.nn.output_head import Output

VOCABULARY, WIDTH = 400, 64
XAVIER_RANGE = math.sqrt(6 / (VOCABULARY + WIDTH))


def test_a_tied_output_shares_its_weights() -> None:
    network = network_of("linear", "scan", tied_output=True)
    assert network.output.linear.weight is network.target_embedding.table.weight
    assert network.output.linear.weight.data_ptr() != network.source_embedding.table.weight.data_ptr()
    free = network_of("linear", "scan", tied_output=False)
    assert free.output.linear.weight is not free.target_embedding.table.weight
    embedding = TokenEmbedding(
        VOCABULARY, WIDTH, "downscale_positions", positions=NonePositions(), longest=64, dropout=0.0
    )
    before = embedding.table.weight.detach().clone()
    output = Output(WIDTH, VOCABULARY, tied=embedding, xavier=True)
    assert torch.equal(output.linear.weight, before), "tying must not draw the embedding anew"
    assert not output.linear.bias.any()


def test_untied_outputs_start_as_asked() -> None:
    weight = Output(WIDTH, VOCABULARY, tied=None, xavier=True).linear.weight
    assert 0.99 * XAVIER_RANGE < weight.abs().max().item() <= XAVIER_RANGE
