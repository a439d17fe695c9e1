"""Flip-flop language modelling (Liu et al. 2023, arXiv 2306.00946): remember one bit while others are to be ignored.

A sequence alternates instructions and bits: w writes its bit, i has a bit to be ignored, r is followed by the bit
written last. Only the bits after r are determined, and only they count in the loss and the metrics. One example,
number 7 of `train` at length 32 and data_seed 0:

    sequence  w0 i1 i1 i0 i0 i1 i0 w1 i0 i0 i0 r1 i0 w0 i1 r0
    read      1 0

FFL(p): the first instruction is w, the last one r; the others are drawn independently, i with probability p, w and r
with (1 - p) / 2 each; bits after w and i are fair coins (section 3.1). Training is on FFL(0.8); tests are on FFL(0.8)
(`test/iid`), FFL(0.98) (`test/sparse`: the bit was written long before) and FFL(0.1) (`test/dense`: many writes and
reads, few ignored bits), at the training length or at `eval_length`.

The published sequences (huggingface.co/datasets/synthseq/flipflop) have the same distribution and are not needed: the
same number is drawn here. There is no validation set: Opper et al. 2025, whose settings are the defaults, train for one
epoch and test the last step. There are few different short sequences, so that test sequences are also in the training
set (99.7 % of `test/iid` at 16 tokens and the default number of sequences, none at 512); every result says how many.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from attnlab.data.batch import LanguageBatch
from attnlab.data.batch_gathering import index_tensors, take_rows
from attnlab.data.examples import Examples
from attnlab.data.files.cache import load_arrays, write_header
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.progress import track
from attnlab.data.train_test_overlap import count_shared, row_keys, shared_in_words
from attnlab.tasks.base import Prepared, Task

WORDS = ("<pad>", "<end>", "w", "r", "i", "0", "1")
PAD, END, WRITE, READ, IGNORE, ZERO, ONE = range(len(WORDS))
INSTRUCTIONS = (WRITE, READ, IGNORE)
TOKENS = np.array([(instruction, bit) for instruction in INSTRUCTIONS for bit in (ZERO, ONE)])
"""[6, 2]: the two tokens of each code; a code is 2 * (index in INSTRUCTIONS) + bit"""
STREAMS = {"train": 0, "test/iid": 1, "test/sparse": 2, "test/dense": 3}
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


class FlipFlop(Task):
    """Flip-flop language modelling, generated on first use and kept in the cache folder (456 MB at the default sizes).

    Args:
        ignore_probability: probability of i in `train` and `test/iid`.
        sparse_probability, dense_probability: the same in `test/sparse` and `test/dense`.
        length: tokens of a training sequence, even.
        eval_length: tokens of a test sequence, even; None = length.
        train_sequences: 1,600,000 in the published data: one epoch of 25,000 steps of 64.
        test_sequences: sequences of `test/iid`; `test/sparse` has ten times as many and `test/dense` a quarter, as in
            the published data, so that each has about half a million bits to read.
        data_seed: seed of the sequences.
    """

    kind = "language_model"
    modality = "tokens"
    version = 1
    subsets = ("train", "test/iid", "test/sparse", "test/dense")
    published = "sequences of 512 tokens: train 1,600,000, test/iid 16,000, test/sparse 160,000, test/dense 4,000"

    def __init__(
        self,
        ignore_probability: Annotated[float, "[0, 1]"] = 0.8,
        sparse_probability: Annotated[float, "[0, 1]"] = 0.98,
        dense_probability: Annotated[float, "[0, 1]"] = 0.1,
        length: Annotated[int, "[4, inf)"] = 512,
        eval_length: Annotated[int, "[4, inf)"] | None = None,
        train_sequences: Annotated[int, "[1, inf)"] = 1600000,
        test_sequences: Annotated[int, "[1, inf)"] = 16000,
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.length, self.eval_length = length, eval_length or length
        self.probabilities = {
            "train": ignore_probability,
            "test/iid": ignore_probability,
            "test/sparse": sparse_probability,
            "test/dense": dense_probability,
        }
        self.sequences = {
            "train": train_sequences,
            "test/iid": test_sequences,
            "test/sparse": 10 * test_sequences,
            "test/dense": max(1, test_sequences // 4),
        }
        self.data_seed = data_seed

    def example(self, prepared: Prepared[FlipFlopSequences], subset: str, number: int) -> str:
        words = [WORDS[token] for token in prepared.subsets[subset].tokens(np.array([number]))[0]]
        pairs = [instruction + bit for instruction, bit in zip(words[::2], words[1::2], strict=True)]
        read = " ".join(pair[1] for pair in pairs if pair[0] == "r")
        return f"sequence  {' '.join(pairs)}\nread      {read}"

    def token_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return WORDS, WORDS

    def prepare(self, folders: Folders) -> Prepared[FlipFlopSequences]:
        _require_even(length=self.length, eval_length=self.eval_length)
        spec = self.task_spec(
            input_vocabulary=len(WORDS),
            output_vocabulary=len(WORDS),
            pad_id=PAD,
            end_id=END,
            never_targets=(PAD, END),
            # the training length, so that an evaluation at another length builds the same network
            max_input_length=self.length - 1,
            max_output_length=self.length - 1,
            metrics=("accuracy", "sequence_accuracy"),
        )
        subsets = {
            subset: FlipFlopSequences(load_arrays(self._build(subset, folders.cache))["codes"]) for subset in STREAMS
        }
        about = (
            f"sequences of {self.eval_length} tokens (trained at {self.length}), "
            f"generated by attnlab with data_seed {self.data_seed}, not the published ones"
        )
        if self.eval_length == self.length:
            about += f"; {self._shared(subsets, folders.cache)}"
        return Prepared(spec=spec, subsets=subsets, about=about)

    def _shared(self, subsets: Mapping[str, FlipFlopSequences], cache: Path) -> str:
        """Text about the share of each test set in the training set; counted once per options."""
        options = {subset: self._options(subset) for subset in STREAMS}

        def build(folder: Path) -> None:
            keys = row_keys(subsets["train"].codes)
            shared = {name: count_shared(subsets[name].codes, keys) for name in STREAMS if name != "train"}
            (folder / "shared.json").write_text(json.dumps(shared))

        folder = self.cached(cache, "flip_flop_overlap", options, build)
        shared = json.loads((folder / "shared.json").read_text())
        return shared_in_words(shared, {name: len(subsets[name]) for name in shared})

    def _options(self, subset: str) -> dict[str, float]:
        """All options that the sequences of a subset depend on."""
        return {
            "sequences": self.sequences[subset],
            "length": self._length(subset),
            "ignore_probability": float(self.probabilities[subset]),
            "data_seed": self.data_seed,
        }

    def _length(self, subset: str) -> int:
        return self.length if subset == "train" else self.eval_length

    def _build(self, subset: str, cache: Path) -> Path:
        def build(folder: Path) -> None:
            with (folder / "codes.npy").open("wb") as file:
                shape = self.sequences[subset], self._length(subset) // 2
                write_header(file, np.dtype(np.uint8), shape)
                probability = float(self.probabilities[subset])
                chunks = generate(subset, self.sequences[subset], self._length(subset), probability, self.data_seed)
                for codes in track(chunks, f"drawing flip-flop {subset}", -(-shape[0] // CHUNK)):
                    file.write(codes.data)

        return self.cached(cache, f"flip_flop_{subset.replace('/', '_')}", self._options(subset), build)


def _require_even(**lengths: int) -> None:
    for name, length in lengths.items():
        if length % 2:
            near = f"nearest: {length - 1} or {length + 1}"
            raise DataError(f"task.{name}={length}: instructions and bits in turn; expected an even number; {near}")
