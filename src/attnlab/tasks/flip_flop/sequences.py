"""Sequences of flip-flop language modelling: symbols, generator, subset."""

import hashlib
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from attnlab.data.batch import LanguageBatch
from attnlab.data.batch_gathering import index_tensors, take_rows
from attnlab.data.examples import Examples
from attnlab.data.vocabulary import Symbols
from attnlab.tasks.shortcuts import Records, Shortcut

SYMBOLS = Symbols(("w", "r", "i", "0", "1"))
WORDS = SYMBOLS.words
PAD, END, WRITE, READ, IGNORE, ZERO, ONE = range(len(WORDS))
INSTRUCTIONS = (WRITE, READ, IGNORE)
TOKENS = np.array([(instruction, bit) for instruction in INSTRUCTIONS for bit in (ZERO, ONE)])
"""[6, 2]: the two tokens of each code; a code is 2 * (index in INSTRUCTIONS) + bit"""
FIRST_READ = 2 * INSTRUCTIONS.index(READ)
"""code of r with bit 0"""
STREAMS = {"train": 0, "test/iid": 1, "test/sparse": 2, "test/dense": 3, "test/twice": 4, "test/four_times": 5}
CHUNK = 1024
"""sequences drawn together from one random stream"""


def draw(rng: np.random.Generator, sequences: int, length: int, ignore_probability: float) -> np.ndarray:
    """Draws sequences of FFL(ignore_probability) as codes [sequences, length / 2], uint8."""
    shape = (sequences, length // 2)
    uniform = rng.random(shape, dtype=np.float32)
    bits = rng.integers(0, 2, shape, dtype=np.uint8)
    write = np.float32((1 - ignore_probability) / 2)
    # numbers of INSTRUCTIONS: write below the first bound, read below the second, ignore above both
    instructions = (uniform >= write).astype(np.uint8) + (uniform >= 2 * write)
    instructions[:, 0], instructions[:, -1] = INSTRUCTIONS.index(WRITE), INSTRUCTIONS.index(READ)
    # position and bit of each write in one number, so that the running maximum is the last write
    writes = np.where(instructions == INSTRUCTIONS.index(WRITE), 2 * np.arange(shape[1], dtype=np.int32) + bits, 0)
    remembered = (np.maximum.accumulate(writes, axis=1) % 2).astype(np.uint8)
    return 2 * instructions + np.where(instructions == INSTRUCTIONS.index(READ), remembered, bits)


def generate(
    subset: str, sequences: int, length: int, ignore_probability: float, data_seed: int
) -> Iterator[np.ndarray]:
    """The codes of a subset in chunks of at most `CHUNK` sequences.

    Every chunk has its own random stream, (data_seed, subset, chunk): a larger subset keeps its first sequences and
    does not change the other subsets.
    """
    for chunk, start in enumerate(range(0, sequences, CHUNK)):
        rng = np.random.default_rng((data_seed, STREAMS[subset], chunk))
        yield draw(rng, CHUNK, length, ignore_probability)[: sequences - start]


class FlipFlopSequences(Examples):
    """A subset: sequences of one length.

    Args:
        codes: [n, length / 2] uint8, one code for an instruction and its bit; may be mapped from a file.
    """

    pad_id = PAD
    held = ("codes", "pairs")

    def __init__(self, codes: np.ndarray) -> None:
        self.codes, self.pairs = codes, TOKENS
        self.lengths = np.full(len(codes), 2 * codes.shape[1])

    def __len__(self) -> int:
        return len(self.codes)

    def tokens(self, numbers: np.ndarray) -> np.ndarray:
        """The sequences of these numbers [B, length], int64."""
        return self._tokens(torch.from_numpy(np.asarray(numbers))).cpu().numpy()

    def _tokens(self, index: Tensor) -> Tensor:
        return take_rows(self.stored("pairs"), take_rows(self.stored("codes"), index).long()).flatten(1)

    def batch(self, numbers: np.ndarray) -> LanguageBatch:
        """The sequences of these numbers [B] as inputs and next tokens; positions that read r are scored."""
        (index,) = index_tensors(self.stored("codes"), np.array(numbers, dtype=np.int64))
        tokens = self._tokens(index)
        inputs = tokens[:, :-1].contiguous()
        return LanguageBatch(
            index=index,
            inputs=inputs,
            lengths=torch.full_like(index, inputs.shape[1]),
            targets=tokens[:, 1:].contiguous(),
            scored=inputs == READ,
            words=torch.zeros_like(index),
        )

    def extents(self) -> np.ndarray:
        return np.broadcast_to(2 * self.codes.shape[1] - 1, (len(self), 1))

    def identities(self) -> list[bytes]:
        return [hashlib.blake2b(codes, digest_size=16).digest() for codes in self.codes]

    def arrays(self) -> list[np.ndarray]:
        return [self.codes]


def most_frequent_bit(train: FlipFlopSequences) -> Shortcut:
    """The shortcut that always reads the bit that is read more often in training."""
    counts = [np.bincount(train.codes[at : at + CHUNK].ravel(), minlength=len(TOKENS)) for at in _chunks(train)]
    bit = int(np.argmax(np.sum(counts, axis=0)[FIRST_READ : FIRST_READ + 2]))
    return lambda part: _bit_scores(part, lambda bits: np.full_like(bits, bit))


def bit_before(part: FlipFlopSequences) -> Records:
    """Scores of the shortcut that reads the last bit of the sequence, whatever its instruction."""
    return _bit_scores(part, lambda bits: np.roll(bits, 1, axis=1))


def _bit_scores(part: FlipFlopSequences, guess: Callable[[np.ndarray], np.ndarray]) -> Records:
    """Scores of guessed bits; `guess` gets the bits [B, length / 2] of all instructions."""
    sums = []
    for at in _chunks(part):
        codes = part.codes[at : at + CHUNK]
        bits, read = codes % 2, codes // 2 == INSTRUCTIONS.index(READ)
        sums.append(np.stack(((read & (guess(bits) == bits)).sum(1), read.sum(1))))
    right, number = np.concatenate(sums, axis=1)
    return {"right": right, "tokens": number, "sequence_accuracy": right == number}


def _chunks(part: FlipFlopSequences) -> range:
    return range(0, len(part), CHUNK)
