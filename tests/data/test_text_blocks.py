"""Blocks of running text for causal and masked language models."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.data.task_spec import TaskSpec
from attnlab.data.text_blocks import MaskedBlocks, TextBlocks, line_bounds

PAD, END, START, MASK = 0, 1, 2, 3
CAUSAL = TaskSpec(kind="language_model", modality="tokens", pad_id=PAD, end_id=END)
MASKED = TaskSpec(
    kind="masked_language_model",
    modality="tokens",
    input_vocabulary=50,
    pad_id=PAD,
    end_id=END,
    mask_id=MASK,
    n_special=4,
    mask_share=0.15,
)


def test_each_place_reads_the_token_before_its_target() -> None:
    blocks = TextBlocks(np.arange(10, 17, dtype=np.uint16), 3, CAUSAL)
    assert len(blocks) == 3
    assert blocks.lengths.tolist() == [3, 3, 1]
    batch = blocks.batch(np.array([2, 0, 1]))
    assert batch.index.tolist() == [2, 0, 1]
    assert batch.inputs.tolist() == [[15, PAD, PAD], [END, 10, 11], [12, 13, 14]]
    assert batch.targets.tolist() == [[16, PAD, PAD], [10, 11, 12], [13, 14, 15]]
    assert batch.scored.tolist() == [[True, False, False], [True] * 3, [True] * 3]
    assert batch.lengths.tolist() == [1, 3, 3]
    assert batch.words.tolist() == [1, 3, 3]


def test_context_is_read_and_not_scored() -> None:
    blocks = TextBlocks(np.arange(10, 17), 3, CAUSAL, context=4)
    batch = blocks.batch(np.array([0, 1, 2]))
    # as much context as there is: none, 3 and 4 tokens
    assert batch.targets.tolist() == [
        [10, 11, 12, PAD, PAD, PAD],
        [10, 11, 12, 13, 14, 15],
        [12, 13, 14, 15, 16, PAD],
    ]
    assert batch.inputs[1].tolist() == [END, 10, 11, 12, 13, 14]
    assert batch.inputs[2].tolist() == [11, 12, 13, 14, 15, PAD]
    assert [row.nonzero().ravel().tolist() for row in batch.scored] == [[0, 1, 2], [3, 4, 5], [4]]
    assert batch.lengths.tolist() == [3, 6, 5]
    assert batch.words.tolist() == [3, 3, 1]


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 25))
def test_every_token_is_scored_once(size: int, length: int, context: int) -> None:
    tokens = np.arange(100, 100 + size)
    words = np.arange(size, dtype=np.uint8) % 3
    blocks = TextBlocks(tokens, length, CAUSAL, context, words)
    batch = blocks.batch(np.arange(len(blocks)))
    np.testing.assert_array_equal(batch.targets[batch.scored].numpy(), tokens)
    assert batch.words.sum() == words.sum()
    assert not (batch.scored & ~batch.mask).any()
    before = np.concatenate(([END], tokens[:-1]))
    np.testing.assert_array_equal(batch.inputs[batch.scored].numpy(), before)
    assert batch.inputs.shape[1] <= length + context


def test_words_are_those_of_the_scored_tokens() -> None:
    blocks = TextBlocks(np.arange(5), 2, CAUSAL, context=2, words=np.array([1, 0, 2, 1, 1], dtype=np.uint8))
    assert blocks.batch(np.array([0, 1, 2])).words.tolist() == [1, 3, 1]


def test_identities_and_arrays_of_text_blocks() -> None:
    tokens = np.array([7, 8, 9, 7, 8, 9, 7], dtype=np.uint16)
    blocks = TextBlocks(tokens, 3, CAUSAL)
    first, second, rest = blocks.identities()
    assert first == second != rest
    assert TextBlocks(tokens.astype(np.int32), 3, CAUSAL, context=5).identities() == [first, second, rest]
    assert [array.tolist() for array in blocks.arrays()] == [tokens.tolist(), [3, 0]]
    assert len(TextBlocks(tokens, 3, CAUSAL, words=np.ones(7)).arrays()) == 3


def masked(draw: tuple[int, int] | None, share: float = 0.15, n: int = 4000) -> MaskedBlocks:
    """Blocks of 1, then about 100 tokens; a tenth of them line ends."""
    tokens = np.random.default_rng(5).integers(4, 50, n).astype(np.uint16)
    tokens[::10] = END
    bounds = np.array([0, 1, *range(100, n, 100), n])
    spec = TaskSpec(**{**vars(MASKED), "mask_share": share})
    return MaskedBlocks(tokens, bounds, START, spec, draw)


def test_blocks_to_train_on_hide_nothing() -> None:
    blocks = MaskedBlocks(np.array([5, 6, END, 7, END], dtype=np.uint8), np.array([0, 3, 5]), START, MASKED)
    batch = blocks.batch(np.array([0, 1]))
    assert batch.inputs.tolist() == batch.targets.tolist() == [[START, 5, 6, END], [START, 7, END, PAD]]
    assert batch.scored.tolist() == [[False, True, True, False], [False, True, False, False]]
    assert batch.lengths.tolist() == [4, 3]
    assert batch.words.tolist() == [0, 0]
    assert blocks.lengths.tolist() == [3, 2]


def test_masks_are_a_function_of_seed_subset_and_example() -> None:
    blocks, numbers = masked((7, 1)), np.array([3, 30, 11])
    batch, again = blocks.batch(numbers), masked((7, 1)).batch(numbers[::-1].copy())
    assert (batch.inputs.flip(0) == again.inputs).all() and (batch.scored.flip(0) == again.scored).all()
    for other in ((8, 1), (7, 2)):
        assert (masked(other).batch(numbers).inputs != batch.inputs).any()
    repeated = MaskedBlocks(np.tile(np.arange(4, 50), 2), np.array([0, 46, 92]), START, MASKED, (7, 1))
    assert (repeated.batch(np.array([0])).inputs != repeated.batch(np.array([1])).inputs).any()


def test_masks_are_roberta_s() -> None:
    blocks = masked((0, 1), n=200_000)
    batch = blocks.batch(np.arange(len(blocks)))
    may = batch.targets >= 4
    assert not (batch.scored & ~may).any(), "special tokens and padding are never predicted"
    assert (batch.inputs == batch.targets)[~batch.scored].all(), "nothing else is touched"
    assert abs(batch.scored.sum() / may.sum() - 0.15) < 0.003
    read, right = batch.inputs[batch.scored], batch.targets[batch.scored]
    hidden, kept = (read == MASK).float().mean(), (read == right).float().mean()
    assert abs(hidden - 0.8) < 0.01
    assert abs(kept - (0.1 + 0.1 / 46)) < 0.01
    swapped = read[(read != MASK) & (read != right)]
    assert swapped.min() == 4 and swapped.max() == 49, "random tokens are any but special ones"


def test_the_share_is_right_over_short_blocks_too() -> None:
    tokens = np.full(3 * 6000, 9, dtype=np.uint8)
    blocks = MaskedBlocks(tokens, np.arange(0, len(tokens) + 1, 3), START, MASKED, (0, 1))
    counts = blocks.batch(np.arange(6000)).scored.sum(1)
    assert set(counts.tolist()) == {0, 1}
    assert abs(counts.sum() / len(tokens) - 0.15) < 0.01


def test_a_block_of_nothing_but_line_ends_has_nothing_to_predict() -> None:
    blocks = MaskedBlocks(np.array([END, END], dtype=np.uint8), np.array([0, 2]), START, MASKED, (0, 1))
    batch = blocks.batch(np.array([0]))
    assert not batch.scored.any()
    assert batch.inputs.tolist() == [[START, END, END]]


def test_identities_and_hash_of_masked_blocks() -> None:
    train, val = masked(None), masked((0, 1))
    assert train.identities() == val.identities()
    assert [len(blocks.arrays()) for blocks in (train, val)] == [2, 3]
    drawn = [
        masked(draw, share).arrays()[2].tolist() for draw, share in (((0, 1), 0.15), ((1, 1), 0.15), ((0, 1), 0.3))
    ]
    assert len(set(map(tuple, drawn))) == 3


def test_length_bins_double() -> None:
    blocks = masked(None)
    assert blocks.length_bins == [1, 64]
    assert MaskedBlocks(np.zeros(512), np.array([0, 512]), START, MASKED).length_bins == [1, 64, 128, 256, 512]
    assert MaskedBlocks(np.zeros(511), np.array([0, 511]), START, MASKED).length_bins == [1, 64, 128, 256]


def stream(*lines: int) -> np.ndarray:
    """Lines of so many words, each with its end."""
    return np.concatenate([[5] * words + [END] for words in lines]) if lines else np.zeros(0, dtype=int)


@pytest.mark.parametrize(
    ("lines", "longest", "bounds"),
    [
        ([2, 1, 3], 5, [0, 5, 9]),
        ([2, 1, 3], 100, [0, 9]),
        ([2, 1, 3], 4, [0, 3, 5, 9]),
        ([0, 0, 0], 2, [0, 2, 3]),
        # a long line is cut; its rest is a line like any
        ([1, 9, 1], 5, [0, 2, 7, 12, 14]),
        ([1, 9, 1], 4, [0, 2, 6, 10, 14]),
        ([4], 5, [0, 5]),
        ([5], 5, [0, 5, 6]),
    ],
)
def test_blocks_of_complete_lines(lines: list[int], longest: int, bounds: list[int]) -> None:
    assert line_bounds(stream(*lines), END, longest).tolist() == bounds


@given(st.lists(st.integers(0, 12), min_size=1, max_size=30), st.integers(1, 15))
def test_no_block_is_longer_and_none_could_take_the_next_line(lines: list[int], longest: int) -> None:
    tokens = stream(*lines)
    bounds = line_bounds(tokens, END, longest)
    sizes = np.diff(bounds)
    assert bounds[0] == 0 and bounds[-1] == len(tokens) and sizes.min() > 0 and sizes.max() <= longest
    for first, last in pairwise(bounds[:-1]):
        following = last + np.flatnonzero(tokens[last:] == END)[0] + 1
        assert following - first > longest, "the next line would have fitted"
        assert tokens[last - 1] == END or last - first == longest, "only a line that fills a block is cut"
