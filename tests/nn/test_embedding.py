"""Embeddings: initial values, scales, position tables against loops."""

import math

import pytest
import torch
from support.module_copies import check_network_copies
from torch import Tensor

from attnlab.attention.positions.sinusoidal import patch_positions, sinusoidal
from attnlab.config.classes.words import POSITIONS, names_in
from attnlab.config.job_config import compose_config
from attnlab.nn.embedding import ImageQuestionEmbedding, TokenEmbedding
from attnlab.nn.network_parts import positions_named

VOCABULARY, WIDTH = 400, 64
XAVIER_RANGE = math.sqrt(6 / (VOCABULARY + WIDTH))


def make(variant: str, absolute: bool = True) -> TokenEmbedding:
    positions = positions_named("sinusoidal" if absolute else "none")
    return TokenEmbedding(VOCABULARY, WIDTH, variant, positions=positions, longest=64, dropout=0.0)


@pytest.mark.parametrize(
    ("variant", "deviation"),
    [
        ("noscale", 1.0),
        ("downscale_positions", math.sqrt(2 / WIDTH)),
        ("upscale_tokens", XAVIER_RANGE / math.sqrt(3)),
        ("xavier", XAVIER_RANGE / math.sqrt(3)),
    ],
)
def test_tables_start_with_their_published_spread(variant: str, deviation: float) -> None:
    """Normal, kaiming-normal (fan-in = width) and xavier-uniform."""
    weight = make(variant).table.weight.detach()
    assert weight.std().item() == pytest.approx(deviation, rel=0.03)
    assert weight.mean().abs().item() < 0.03 * deviation
    if variant in ("upscale_tokens", "xavier"):
        assert 0.99 * XAVIER_RANGE < weight.abs().max().item() <= XAVIER_RANGE
    else:
        assert weight.abs().max().item() > 3 * deviation


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize(
    ("variant", "tokens_times", "positions_times"),
    [
        ("noscale", 1, 1),
        ("upscale_tokens", math.sqrt(WIDTH), 1),
        ("downscale_positions", 1, 1 / math.sqrt(WIDTH)),
        ("xavier", 1, 1),
    ],
)
def test_tokens_and_positions_have_their_scales(
    variant: str, tokens_times: float, positions_times: float, absolute: bool
) -> None:
    embedding, tokens = make(variant, absolute), torch.randint(VOCABULARY, (2, 7))
    expected = embedding.table.weight[tokens] * tokens_times
    if absolute:
        expected = expected + positions_times * sinusoid_loop(range(3, 10), WIDTH)
    torch.testing.assert_close(embedding(tokens, first=3), expected, rtol=1e-5, atol=1e-5)


def test_tokens_of_formal_languages_are_smaller_than_their_positions() -> None:
    """0.02 sqrt(64) times a normal cut at two standard deviations (Deletang et al. 2023), beside sinusoids of 0.71."""
    variant = compose_config(["task=formal_language"])["backbone"]["embedding"]
    tokens = make(variant, absolute=False)(torch.arange(VOCABULARY)[None]).detach()
    assert tokens.abs().max().item() <= 0.04 * math.sqrt(WIDTH)
    assert tokens.square().mean().sqrt().item() == pytest.approx(0.8796 * 0.02 * math.sqrt(WIDTH), rel=0.02)


def sinusoid_loop(positions: range, width: int) -> Tensor:
    """Column 2c: sin(position / 10000^(2c / width)); column 2c + 1: its cosine."""
    table = torch.zeros(len(positions), width)
    for row, position in enumerate(positions):
        for column in range(width):
            angle = position / 10000 ** (2 * (column // 2) / width)
            table[row, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


def test_positions_go_on_where_they_stopped() -> None:
    like = torch.zeros(())
    torch.testing.assert_close(sinusoidal(20, 8, like)[12:], sinusoidal(8, 8, like, first=12), rtol=0, atol=0)
    torch.testing.assert_close(sinusoidal(20, 8, like), sinusoid_loop(range(20), 8), rtol=1e-5, atol=1e-5)


def test_patch_positions_are_those_of_the_published_code() -> None:
    """sort-of-CLEVR (Mittal et al. 2022): the exponent of column i is 2i / width, i itself being even for sines and
    odd for cosines, so frequencies fall twice as fast as usual; all times 1 / (1 + 1/e)."""
    table = patch_positions(25, 128, torch.zeros((), dtype=torch.float32))
    for position in range(25):
        for i in range(0, 128, 2):
            sine = math.sin(position / 10000 ** (2 * i / 128)) / (1 + math.exp(-1))
            cosine = math.cos(position / 10000 ** (2 * (i + 1) / 128)) / (1 + math.exp(-1))
            assert table[position, i].item() == pytest.approx(sine, abs=1e-5)
            assert table[position, i + 1].item() == pytest.approx(cosine, abs=1e-5)


def test_image_question_tokens_equal_a_loop() -> None:
    """Class token first, patches row by row with their positions, the question joined to every one, a linear map."""
    embedding = ImageQuestionEmbedding((30, 45, 3), 4, 8, positions=positions_named("sinusoidal"), dropout=0.0).double()
    images, questions = torch.randint(256, (2, 30, 45, 3)).byte(), torch.randint(2, (2, 4)).byte()
    out, table = embedding(images, questions), patch_positions(6, 4, torch.zeros((), dtype=torch.float64))
    assert out.shape == (2, 7, 8)
    for b in range(2):
        question = embedding.question(questions[b].double())
        tokens = [embedding.class_token[0, 0]]
        for number, (row, column) in enumerate((row, column) for row in range(2) for column in range(3)):
            pixels = images[b, 15 * row : 15 * row + 15, 15 * column : 15 * column + 15].double() / 255
            patch = torch.einsum("ochw,hwc->o", embedding.patches.weight, pixels) + embedding.patches.bias
            tokens.append(patch + table[number])
        for token, actual in zip(tokens, out[b], strict=True):
            expected = embedding.mapping(torch.cat((token, question)))
            torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def test_patches_of_compiled_steps_are_the_eager_ones() -> None:
    """The operator: as torch's checks want it, and no view of its argument."""
    images, operator = torch.randint(256, (2, 30, 15, 3)).byte(), torch.ops.attnlab.patches
    expected = images.reshape(2, 2, 675).double() / 255
    for inputs, actual in ((images, expected), (images.double(), 255 * expected)):
        torch.library.opcheck(operator.default, (inputs, 15, torch.float64))
        torch.testing.assert_close(operator(inputs, 15, torch.float64), actual)


@pytest.mark.parametrize("positions", names_in(POSITIONS))
def test_networks_of_every_position_can_be_copied_and_saved(positions: str) -> None:
    check_network_copies("scan", "vanilla", positions=positions)
