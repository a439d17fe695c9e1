"""Networks of two kinds of attention, and the comparison of incremental decoding with teacher forcing."""

from dataclasses import replace

import torch

from attnlab.config.schema import LayerGroup, Model
from attnlab.nn.output_head import SequenceNetwork
from support.model_cases import config_of
from support.tensors import masks


def two_kinds(pattern: str) -> Model:
    """Linear attention in half of the layers, softmax in the other half."""
    linear = config_of("linear_l2_ortho").model
    softmax = config_of("vanilla").model.encoder[0].attention
    groups = [LayerGroup(share=0.5, attention=linear.encoder[0].attention), LayerGroup(share=0.5, attention=softmax)]
    return replace(linear, encoder=groups, decoder=groups, pattern=pattern)


def check_steps(network: SequenceNetwork) -> None:
    """Checks that incremental decoding gives the logits of the forward at real positions, also after `select`."""
    inputs, input_mask = torch.randint(7, (3, 6)), masks([6, 2, 4], 6)
    read = torch.randint(6, (3, 5))
    expected, _ = network(inputs, input_mask, read, masks([5, 5, 5], 5))
    other = torch.where(input_mask, inputs, 3)
    state, rows = network.start(other, input_mask), torch.arange(3)
    for position in range(5):
        if position == 3:
            rows = torch.tensor([2, 0])
            state = state.select(rows)
        assert state.position == position
        logits, state = network.step(read[rows, position], state)
        torch.testing.assert_close(logits, expected[rows, position], rtol=1e-10, atol=1e-10)
