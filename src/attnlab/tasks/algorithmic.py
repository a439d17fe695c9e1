"""Copying, reversal, addition and sorting (Kazemnejad et al. 2023, arXiv 2305.19466): longer than in training.

One example, number 0 of `test/ood` of `dataset=addition` at the default options:

    input   3 + 5 6 1 2 2 8 5 2 6
    output  5 6 1 2 2 8 5 2 9

| dataset      | input                                                  | output           | size in training and test |
| copy         | 4 or more of 100 symbols                               | the same         | up to 20, then up to 40   |
| reverse      | 4 or more of 100 symbols                               | from the last on | up to 20, then up to 40   |
| addition     | two numbers, digit by digit, of 1 or more digits each  | their sum        | up to 8, then up to 16    |
| sort         | 4 or more of 50 symbols in a fixed order               | sorted           | up to 8, then up to 16    |
| sort_numbers | 4 or more numbers from 10 to 9,999, digit by digit     | sorted           | up to 8, then up to 16    |

In training all sizes are equally frequent, in addition all pairs of sizes; in `test/ood` of addition the larger size is
beyond training. Definitions as in github McGill-NLP/length-generalization (scripts/dataset_builders, 40f8a44), without
the words of their prompts ("Compute", "The answer is"), and with our symbols in place of pieces of the T5 tokenizer.
The published networks are decoders alone: `backbone.architecture=decoder_only`, which the yaml sets.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Annotated, Literal

import numpy as np

from attnlab.data.examples import SequencePairs
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.train_test_overlap import overlap_in_words
from attnlab.data.vocabulary import Vocabulary
from attnlab.tasks.base import Prepared
from attnlab.tasks.drawn_tagging import spread
from attnlab.tasks.shortcuts import Shortcut
from attnlab.tasks.word_tasks import SequenceTask, Words, declared, origin

STREAMS = {"train": 0, "val": 1, "test/iid": 2, "test/ood": 3}
SMALLEST = {"copy": 4, "reverse": 4, "addition": 1, "sort": 4, "sort_numbers": 4}
LONGEST = {"copy": 20, "reverse": 20, "addition": 8, "sort": 8, "sort_numbers": 8}
"""published largest sizes in training; tests go to twice these"""
SYMBOLS = {"copy": 100, "reverse": 100, "sort": 50}
ANSWERS: dict[str, Callable[[list[int]], list[int]]] = {"copy": list, "reverse": lambda row: row[::-1], "sort": sorted}
DIGITS = tuple("0123456789")
EXTRA = {"addition": "+", "sort_numbers": ","}
"""word besides digits"""
Pair = tuple[Words, Words]


class Algorithmic(SequenceTask):
    """Tasks on sequences that grow, generated at every start.

    Args:
        dataset: what is asked.
        size: largest size in `train`, `val` and `test/iid`, in symbols, digits or numbers; null = as published.
        test_size: largest size in `test/ood`, which begins above `size`; null = twice `size`.
        train_examples, val_examples, test_examples: number of examples; of both tests each.
        data_seed: seed of the examples.
        end_token: as in SequenceTask.
    """

    subsets = ("train", "val", "test/iid", "test/ood")
    published = "sizes up to 20 (copy, reverse) or 8; test up to 40 or 16"

    def __init__(
        self,
        dataset: Literal["copy", "reverse", "addition", "sort", "sort_numbers"] = "copy",
        size: Annotated[int, "[1, inf) up to 1000"] | None = None,
        test_size: Annotated[int, "[1, inf) up to 1000"] | None = None,
        train_examples: Annotated[int, "[1, inf)"] = 100_000,
        val_examples: Annotated[int, "[1, inf)"] = 2000,
        test_examples: Annotated[int, "[1, inf)"] = 10_000,
        data_seed: Annotated[int, "[0, inf)"] = 0,
        end_token: bool = True,
    ) -> None:
        super().__init__(end_token=end_token)
        self.dataset, self.data_seed = dataset, data_seed
        self.size = size or LONGEST[dataset]
        self.test_size = test_size or 2 * self.size
        numbers = (train_examples, val_examples, test_examples, test_examples)
        self.examples_of = dict(zip(self.subsets, numbers, strict=True))
        self.words = tuple(map(str, range(SYMBOLS[dataset]))) if dataset in SYMBOLS else (*DIGITS, EXTRA[dataset])
        self.inputs = self.outputs = Vocabulary(self.words)

    def require_possible(self) -> None:
        least = SMALLEST[self.dataset]
        if self.size < least:
            raise DataError(f"task.size={self.size}: {self.dataset} begins at {least}; expected at least {least}")
        if self.test_size <= self.size:
            raise DataError(f"task.test_size={self.test_size}: test/ood is larger; expected more than {self.size}")

    def prepare(self, folders: Folders) -> Prepared[SequencePairs]:
        self.require_possible()
        framed = {name: self.framed(pairs, name) for name, pairs in declared(self, self.pairs()).items()}
        overlap = overlap_in_words({name: part.inputs for name, part in framed.items()})
        return self.prepared(framed, f"{origin(self)}, with data_seed {self.data_seed}; {overlap}")

    def shortcuts(self, prepared: Prepared[SequencePairs]) -> Mapping[str, Shortcut]:
        """The shortcuts of sequence tasks; copying is none where it is the task."""
        left_out = {"copying the input"} if self.dataset == "copy" else set()
        return {name: shortcut for name, shortcut in super().shortcuts(prepared).items() if name not in left_out}

    def pairs(self) -> dict[str, list[Pair]]:
        return {name: self._drawn(name) for name in self.subsets}

    def _drawn(self, subset: str) -> list[Pair]:
        sizes = self._sizes(beyond=subset == "test/ood")
        pairs = list[Pair]()
        for number, size in zip(spread(self.examples_of[subset], len(sizes)), sizes, strict=True):
            rng = np.random.default_rng((self.data_seed, STREAMS[subset], *size))
            pairs += self._of_size(rng, number, size)
        return pairs

    def _sizes(self, beyond: bool) -> list[tuple[int, ...]]:
        """Sizes of the examples of a subset; for addition of both numbers."""
        least, largest = SMALLEST[self.dataset], self.test_size if beyond else self.size
        parts = 2 if self.dataset == "addition" else 1
        sizes = product(range(least, largest + 1), repeat=parts)
        return [size for size in sizes if not beyond or max(size) > self.size]

    def _of_size(self, rng: np.random.Generator, number: int, size: tuple[int, ...]) -> Iterator[Pair]:
        if self.dataset == "addition":
            first, second = (draw_numbers(rng, number, digits) for digits in size)
            return (((*a, "+", *b), str(int(a) + int(b))) for a, b in zip(first, second, strict=True))
        if self.dataset == "sort_numbers":
            rows = rng.integers(10, 10_000, (number, *size)).tolist()
            return ((_listed(row), _listed(sorted(row))) for row in rows)
        rows = rng.integers(0, len(self.words), (number, *size)).tolist()
        words, answer = self.words, ANSWERS[self.dataset]
        return (([words[i] for i in row], [words[i] for i in answer(row)]) for row in rows)


def draw_numbers(rng: np.random.Generator, number: int, digits: int) -> list[str]:
    """Numbers of so many digits without leading zeros, all equally likely; of one digit 0 too."""
    table = rng.integers(0, 10, (number, digits))
    if digits > 1:
        table[:, 0] = rng.integers(1, 10, number)
    return ["".join(map(str, row)) for row in table.tolist()]


def _listed(numbers: Sequence[int]) -> Words:
    return list(",".join(map(str, numbers)))
