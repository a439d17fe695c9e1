"""Flip-flop language modelling (Liu et al. 2023, arXiv 2306.00946): remember one bit while others are to be ignored.

A sequence alternates instructions and bits: w writes its bit, i has a bit to be ignored, r is followed by the bit
written last. Only the bits after r are determined, and only they count in the loss and the metrics. One example,
number 7 of `train` at length 32 and data_seed 0:

    sequence  w0 i1 i1 i0 i0 i1 i0 w1 i0 i0 i0 r1 i0 w0 i1 r0
    read      1 0

FFL(p): the first instruction is w, the last one r; the others are drawn independently, i with probability p, w and r
with (1 - p) / 2 each; bits after w and i are fair coins (section 3.1). Training is on FFL(0.8); tests are on FFL(0.8)
(`test/iid`), FFL(0.98) (`test/sparse`: the bit was written long before) and FFL(0.1) (`test/dense`: many writes and
reads, few ignored bits), at the training length or at `eval_length`. With `longer_tests` also on FFL(0.8) at twice
(`test/twice`) and four times the training length (`test/four_times`).

The published sequences (huggingface.co/datasets/synthseq/flipflop) have the same distribution and are not needed: the
same number is drawn here. There is no validation set: Opper et al. 2025, whose settings are the defaults, train for one
epoch and test the last step. There are few different short sequences, so that test sequences are also in the training
set (99.7 % of `test/iid` at 16 tokens and the default number of sequences, none at 512); every result says how many.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from attnlab.data.batch import LanguageBatch
from attnlab.data.files.cache import load_arrays, write_header
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.progress import track
from attnlab.data.train_test_overlap import count_shared, row_keys, shared_in_words
from attnlab.data.user_inputs import TEXT, encoded, language_batch
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.flip_flop.sequences import (
    CHUNK,
    END,
    PAD,
    SYMBOLS,
    WORDS,
    FlipFlopSequences,
    bit_before,
    generate,
    most_frequent_bit,
)
from attnlab.tasks.shortcuts import Shortcut


class FlipFlop(Task):
    """Flip-flop language modelling, generated on first use and kept in the cache folder (456 MB at the default sizes).

    Args:
        ignore_probability: probability of i in `train` and `test/iid`.
        sparse_probability: probability of i in `test/sparse`.
        dense_probability: probability of i in `test/dense`.
        length: tokens of a training sequence, even.
        eval_length: tokens of a test sequence, even; null = `length`.
        longer_tests: also `test/twice` and `test/four_times`, of as many sequences as `test/iid`.
        train_sequences: 1,600,000 in the published data: one epoch of 25,000 steps of 64.
        test_sequences: sequences of `test/iid`; `test/sparse` has ten times as many and `test/dense` a quarter, as in
            the published data, so that each has about half a million bits to read.
        data_seed: seed of the sequences.
    """

    kind = "language_model"
    modality = "tokens"
    version = 1
    subsets = ("train", "test/iid", "test/sparse", "test/dense")
    subsets_with: ClassVar = {
        "longer_tests": {True: ("train", "test/iid", "test/sparse", "test/dense", "test/twice", "test/four_times")}
    }
    published = "sequences of 512 tokens: train 1,600,000, test/iid 16,000, test/sparse 160,000, test/dense 4,000"

    def __init__(
        self,
        ignore_probability: Annotated[float, "[0, 1]"] = 0.8,
        sparse_probability: Annotated[float, "[0, 1]"] = 0.98,
        dense_probability: Annotated[float, "[0, 1]"] = 0.1,
        length: Annotated[int, "[4, inf)"] = 512,
        eval_length: Annotated[int, "[4, inf)"] | None = None,
        longer_tests: bool = False,
        train_sequences: Annotated[int, "[1, inf)"] = 1600000,
        test_sequences: Annotated[int, "[1, inf)"] = 16000,
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.length, self.eval_length = length, eval_length or length
        self.probabilities = {"test/sparse": sparse_probability, "test/dense": dense_probability}
        self.ignore_probability = ignore_probability
        self.sequences = {
            "train": train_sequences,
            "test/iid": test_sequences,
            "test/sparse": 10 * test_sequences,
            "test/dense": max(1, test_sequences // 4),
        }
        self.lengths = {"train": length}
        if longer_tests:
            self.sequences |= {"test/twice": test_sequences, "test/four_times": test_sequences}
            self.lengths |= {"test/twice": 2 * length, "test/four_times": 4 * length}
        self.data_seed = data_seed

    def example(self, prepared: Prepared[FlipFlopSequences], subset: str, number: int) -> str:
        words = [WORDS[token] for token in prepared.subsets[subset].tokens(np.array([number]))[0]]
        pairs = [instruction + bit for instruction, bit in zip(words[::2], words[1::2], strict=True)]
        read = " ".join(pair[1] for pair in pairs if pair[0] == "r")
        return f"sequence  {' '.join(pairs)}\nread      {read}"

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[str]) -> LanguageBatch:
        """Inputs are sequences such as `w1 i0 r`, to be continued."""
        return language_batch(encoded(inputs, TEXT, lambda text: SYMBOLS.encode(text.replace(" ", ""))), PAD)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[Sequence[int]]) -> list[str]:
        return [WORDS[token] for (token,) in outputs]

    def token_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return WORDS, WORDS

    def shortcuts(self, prepared: Prepared[FlipFlopSequences]) -> Mapping[str, Shortcut]:
        """The more frequent bit behind r in training; the bit before r, whatever its instruction."""
        return {"most frequent bit": most_frequent_bit(prepared.subsets["train"]), "bit before": bit_before}

    def require_possible(self) -> None:
        for name in ("length", "eval_length"):
            if (length := getattr(self, name)) % 2:
                near = f"nearest: {length - 1} or {length + 1}"
                raise DataError(f"task.{name}={length}: instructions and bits in turn; expected an even number; {near}")

    def prepare(self, folders: Folders) -> Prepared[FlipFlopSequences]:
        self.require_possible()
        longest = max(self.lengths.values())
        spec = self.task_spec(
            input_vocabulary=len(WORDS),
            output_vocabulary=len(WORDS),
            pad_id=PAD,
            end_id=END,
            never_targets=(PAD, END),
            # eval_length is left out, so that an evaluation at another length builds the same network
            max_input_length=longest - 1,
            max_output_length=longest - 1,
            metrics=("accuracy", "sequence_accuracy"),
        )
        subsets = {
            subset: FlipFlopSequences(load_arrays(self._build(subset, folders.cache))["codes"])
            for subset in self.sequences
        }
        about = (
            f"sequences of {self.eval_length} tokens (trained at {self.length}), "
            f"generated by attnlab with data_seed {self.data_seed}, not the published ones"
        )
        if self.eval_length == self.length:
            about += f"; {self._shared(subsets, folders.cache)}"
        return Prepared(spec=spec, subsets=subsets, about=about)

    def _shared(self, subsets: Mapping[str, FlipFlopSequences], cache: Path) -> str:
        """Text about the share of each test set of this length in the training set; counted once per options."""
        names = [subset for subset in subsets if self._length(subset) == self.length]
        options = {subset: self._options(subset) for subset in names}

        def text() -> str:
            keys = row_keys(subsets["train"].codes)
            shared = {name: count_shared(subsets[name].codes, keys) for name in names if name != "train"}
            return shared_in_words(shared, {name: len(subsets[name]) for name in shared})

        return self.cached_text(cache, "flip_flop_shared", options, text)

    def _options(self, subset: str) -> dict[str, float]:
        """All options that the sequences of a subset depend on."""
        return {
            "sequences": self.sequences[subset],
            "length": self._length(subset),
            "ignore_probability": self._probability(subset),
            "data_seed": self.data_seed,
        }

    def _length(self, subset: str) -> int:
        return self.lengths.get(subset, self.eval_length)

    def _probability(self, subset: str) -> float:
        return float(self.probabilities.get(subset, self.ignore_probability))

    def _build(self, subset: str, cache: Path) -> Path:
        def build(folder: Path) -> None:
            with (folder / "codes.npy").open("wb") as file:
                shape = self.sequences[subset], self._length(subset) // 2
                write_header(file, np.dtype(np.uint8), shape)
                probability = self._probability(subset)
                chunks = generate(subset, self.sequences[subset], self._length(subset), probability, self.data_seed)
                for codes in track(chunks, f"drawing flip-flop {subset}", -(-shape[0] // CHUNK)):
                    file.write(codes.data)

        return self.cached(cache, f"flip_flop_{subset.replace('/', '_')}", self._options(subset), build)
