"""Running text as one long array of tokens, cut into blocks for a causal or a masked language model."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F

from attnlab.data.batch import LanguageBatch, length_mask
from attnlab.data.batch_gathering import index_tensors, padded_spans, take_rows
from attnlab.data.examples import Examples, digest
from attnlab.data.task_spec import TaskSpec

SHARE_MASKED, SHARE_RANDOM = 0.8, 0.1
"""shares of the predicted tokens: masked, replaced by a random token; the others do not change (Devlin et al. 2019)"""


class TextBlocks(Examples):
    """Blocks of a token stream for a causal language model: example i scores tokens [i L, (i + 1) L).

    An end-of-line token comes before the first token of the stream. Only the last block may be shorter.

    Args:
        tokens: [n] the stream with line ends; may be mapped from a file.
        length: number L of scored tokens per block.
        spec: source of pad_id and end_id.
        context: number of earlier tokens that a block also reads, as far as they exist; they are not scored.
        words: [n] number of words that begin at each token; None: each token is a word.
    """

    lengths: np.ndarray

    def __init__(
        self, tokens: np.ndarray, length: int, spec: TaskSpec, context: int = 0, words: np.ndarray | None = None
    ) -> None:
        self.tokens, self.length, self.context, self.words = tokens, length, context, words
        self.pad_id, self.end_id = spec.pad_id, spec.end_id
        self.starts = np.arange(0, len(tokens), length)
        self.lengths = np.minimum(length, len(tokens) - self.starts)
        self.held = ("tokens",) if words is None else ("tokens", "words")

    def __len__(self) -> int:
        return len(self.starts)

    def batch(self, numbers: np.ndarray) -> LanguageBatch:
        """The blocks of these numbers [B], each after its context; position n reads the token before its target."""
        numbers = np.array(numbers, dtype=np.int64)
        stops = self.starts[numbers] + self.lengths[numbers]
        begins = np.maximum(self.starts[numbers] - self.context, 0)
        longest = int((stops - begins).max(initial=0))
        tokens = self.stored("tokens")
        index, begin, first, stop = index_tensors(tokens, numbers, begins, self.starts[numbers], stops)
        lengths = stop - begin
        targets = padded_spans(tokens, begin, lengths, longest, self.pad_id)
        inputs = targets.roll(1, 1)
        before = torch.where(begin > 0, take_rows(tokens, (begin - 1).clamp(min=0)).long(), self.end_id)
        inputs[:, :1] = before[:, None]
        real, words = length_mask(lengths, longest), stop - first
        if self.words is not None:
            # those that begin in each block
            words = padded_spans(self.stored("words"), first, stop - first, self.length, 0).sum(1)
        return LanguageBatch(
            index=index,
            inputs=torch.where(real, inputs, self.pad_id),
            lengths=lengths,
            targets=targets,
            scored=real & ~length_mask(first - begin, longest),
            words=words,
        )

    def extents(self) -> np.ndarray:
        return (self.lengths + np.minimum(self.starts, self.context))[:, None]

    def identities(self) -> list[bytes]:
        return [digest(self.tokens[start : start + self.length]) for start in self.starts.tolist()]

    def arrays(self) -> list[np.ndarray]:
        words = [] if self.words is None else [self.words]
        return [self.tokens, np.array([self.length, self.context]), *words]


class MaskedBlocks(Examples):
    """Blocks of a token stream for a masked language model, each with a start token in front.

    For training, nothing is masked: `scored` are the positions that may be masked (real, not special), and the training
    loop draws a mask at every visit. For evaluation, each example has a fixed mask, as in RoBERTa (spec.mask_share of
    the tokens are predicted; of these 80 % become mask_id, 10 % a random token, 10 % do not change). Words are not
    counted.

    Args:
        tokens: [n] the stream with line ends; may be mapped from a file.
        bounds: [number of blocks + 1] start of each block; the last entry is n.
        start_id: token in front of every block.
        spec: source of pad_id, mask_id, n_special, input_vocabulary and mask_share.
        draw: seed of the masks, together with the example's number; None: no mask.
    """

    lengths: np.ndarray

    def __init__(
        self, tokens: np.ndarray, bounds: np.ndarray, start_id: int, spec: TaskSpec, draw: Sequence[int] | None = None
    ) -> None:
        self.tokens, self.bounds, self.start_id, self.spec, self.draw = tokens, bounds, start_id, spec, draw
        self.lengths, self.pad_id = np.diff(bounds), spec.pad_id
        # masks are drawn row by row, on the host
        self.held = ("tokens",) if draw is None else ()
        longest = int(self.lengths.max(initial=1))
        self.length_bins = [1, *(2**power for power in range(6, longest.bit_length()))]

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, numbers: np.ndarray) -> LanguageBatch:
        """The blocks of these numbers [B]; targets are their tokens with the start token."""
        numbers = np.array(numbers, dtype=np.int64)
        sizes, tokens = self.lengths[numbers], self.stored("tokens")
        index, starts, lengths = index_tensors(tokens, numbers, self.bounds[numbers], sizes)
        text = padded_spans(tokens, starts, lengths, int(sizes.max(initial=0)), self.pad_id)
        targets = F.pad(text, (1, 0), value=self.start_id)
        inputs, scored = targets, targets >= self.spec.n_special
        if self.draw is not None:
            inputs, scored = targets.clone(), torch.zeros_like(scored)
            for row, number in enumerate(numbers.tolist()):
                self._mask((*self.draw, number), inputs[row, : sizes[row] + 1].numpy(), scored[row].numpy())
        return LanguageBatch(
            index=index,
            inputs=inputs,
            lengths=lengths + 1,
            targets=targets,
            scored=scored,
            words=torch.zeros_like(index),
        )

    def extents(self) -> np.ndarray:
        return self.lengths[:, None] + 1

    def _mask(self, seed: Sequence[int], inputs: np.ndarray, scored: np.ndarray) -> None:
        """Masks tokens of one row of inputs in place, and marks the predicted positions in `scored`."""
        rng = np.random.default_rng(seed)
        positions = np.flatnonzero(inputs >= self.spec.n_special)
        # rounded up or down at random, so that the share is correct for short blocks too (as in fairseq)
        chosen = rng.permutation(positions)[: int(self.spec.mask_share * len(positions) + rng.random())]
        fate = rng.random(len(chosen))
        swapped = chosen[(fate >= SHARE_MASKED) & (fate < SHARE_MASKED + SHARE_RANDOM)]
        inputs[chosen[fate < SHARE_MASKED]] = self.spec.mask_id
        inputs[swapped] = rng.integers(self.spec.n_special, self.spec.input_vocabulary, len(swapped))
        scored[chosen] = True

    def identities(self) -> list[bytes]:
        return [digest(self.tokens[first:stop]) for first, stop in pairwise(self.bounds.tolist())]

    def arrays(self) -> list[np.ndarray]:
        drawn = [] if self.draw is None else [np.array([*self.draw, round(self.spec.mask_share * 1e9)])]
        return [self.tokens, self.bounds, *drawn]


def line_bounds(tokens: np.ndarray, end_id: int, longest: int) -> np.ndarray:
    """Bounds of blocks of complete lines: as many lines per block as fit into `longest` tokens with their ends.

    A longer line is cut into full blocks; its rest begins a block like any other line.

    Args:
        tokens: [n] a stream in which every line ends with `end_id`.

    Returns:
        [number of blocks + 1]; block i has the tokens from entry i to entry i + 1.
    """
    line_ends = (np.flatnonzero(tokens == end_id) + 1).tolist()
    bounds = [0]
    while bounds[-1] < len(tokens):
        reach = min(bounds[-1] + longest, len(tokens))
        fitting = bisect_right(line_ends, reach)
        last = line_ends[fitting - 1] if fitting else 0
        bounds.append(last if last > bounds[-1] else reach)
    return np.array(bounds, dtype=np.int64)
