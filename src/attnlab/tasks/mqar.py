"""MQAR, multi-query associative recall (Arora et al. 2023, arXiv 2312.04927, section 4): values of keys seen before.

Keys and their values come first. Later every key comes again once, and the target there is its value. One example,
number 0 of `train` at `vocabulary=12 length=16 pairs=2` and data_seed 0:

    input   5 9 1 6 5 0 0 0 1 0 0 0 0 0 0 0
    target  _ _ _ _ 9 _ _ _ 6 _ _ _ _ _ _ _

Keys are numbers 1 .. V/2 - 1, values V/2 .. V - 1, in one sequence each at most once. Keys come again at even places
after the pairs. The gap g = 1, 2, ... between a key and the end of the pairs, in steps of two places, is drawn without
replacement with probability proportional to g^(a - 1), a = `power`: most keys come again soon. Other places hold 0, or
random numbers (`random_non_queries`: the default of the published code, not its settings of figure 2).

Definition as in github HazyResearch/zoology (data/multiquery_ar.py, d88d6f5); the sequences are drawn here.
`tests/tasks/test_mqar.py` compares the targets with sequences of that code.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Annotated, Any

import numpy as np

from attnlab.data.files.fetch import DataError
from attnlab.data.vocabulary import Symbols
from attnlab.tasks.base import Prepared
from attnlab.tasks.drawn_tagging import UNSCORED, DrawnTagging, Part, Table, distinct, require_different
from attnlab.tasks.kinds.tagging import TaggedSequences, tag_scores, targets_before
from attnlab.tasks.shortcuts import Records, Shortcut


class Mqar(DrawnTagging):
    """Multi-query associative recall, generated on first use.

    Args:
        vocabulary: number of different numbers, keys and values together.
        length: numbers in a sequence of `train` and `val`, even.
        pairs: keys and values in a sequence of `train` and `val`; 4 `pairs` is at most `length`.
        test_lengths, test_pairs: `test` has sequences of every length with every number of pairs; null = as in
            training. Results also by length (`test/length_256`) and by number of pairs (`test/pairs_8`).
        power: a of the power law of gaps; 1 = uniform.
        random_non_queries: whether random numbers fill the places of no pair and no query, not 0.
        train_examples, val_examples: number of sequences.
        test_examples: number of test sequences of each length and number of pairs.
        data_seed: seed of the sequences.
    """

    kind = "language_model"
    subsets = ("train", "val", "test")
    has_groups = True
    published = "vocabulary 8,192; train 100,000, test 3,000 of 64 to 512 numbers with 4 to 64 pairs"

    def __init__(
        self,
        vocabulary: Annotated[int, "[4, inf) up to 1e6"] = 8192,
        length: Annotated[int, "[4, inf) up to 1e5"] = 64,
        pairs: Annotated[int, "[1, inf) up to 1e5"] = 4,
        test_lengths: list[Annotated[int, "[4, inf) up to 1e5"]] | None = None,
        test_pairs: list[Annotated[int, "[1, inf) up to 1e5"]] | None = None,
        power: Annotated[float, "(0, 1]"] = 0.01,
        random_non_queries: bool = False,
        train_examples: Annotated[int, "[1, inf)"] = 100_000,
        val_examples: Annotated[int, "[1, inf)"] = 3000,
        test_examples: Annotated[int, "[1, inf)"] = 3000,
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.vocabulary, self.length, self.pairs = vocabulary, length, pairs
        self.test_lengths = [length] if test_lengths is None else test_lengths
        self.test_pairs = [pairs] if test_pairs is None else test_pairs
        self.common = {"vocabulary": vocabulary, "power": power, "random_non_queries": random_non_queries}
        self.train_examples, self.val_examples, self.test_examples = train_examples, val_examples, test_examples
        self.data_seed = data_seed
        self.inputs = Symbols(tuple(map(str, range(vocabulary))))
        self.tags, self.first_tag = self.inputs.words, len(self.inputs.special)

    def parts(self) -> dict[str, list[Part]]:
        require_different("task.test_lengths", self.test_lengths)
        require_different("task.test_pairs", self.test_pairs)
        tests = list(product(sorted(self.test_lengths), sorted(self.test_pairs)))
        if not tests:
            raise DataError(
                "task.test_lengths, task.test_pairs: a list is empty; expected at least one number, or null"
            )
        self._require_room("length", self.length, "pairs", self.pairs)
        for length, pairs in tests:
            self._require_room("test_lengths", length, "test_pairs", pairs)
        return {
            "train": [self._part(self.train_examples, self.length, self.pairs)],
            "val": [self._part(self.val_examples, self.length, self.pairs)],
            "test": [self._part(self.test_examples, length, pairs, f"pairs_{pairs}") for length, pairs in tests],
        }

    def _part(self, sequences: int, length: int, pairs: int, group: str = "") -> Part:
        return Part(sequences, {**self.common, "length": length, "pairs": pairs}, group)

    def _require_room(self, length_key: str, length: int, pairs_key: str, pairs: int) -> None:
        if length % 2:
            raise DataError(f"task.{length_key}: {length} is odd; expected even numbers, such as {length + 1}")
        if 4 * pairs > length:
            raise DataError(
                f"task.{pairs_key}: {pairs} pairs and their queries take {4 * pairs} places, and task.{length_key} has "
                f"{length}; at most {length // 4} pairs fit"
            )
        if pairs > self.vocabulary // 2 - 1:
            raise DataError(
                f"task.{pairs_key}: {pairs} pairs need as many keys, and task.vocabulary={self.vocabulary} has "
                f"{self.vocabulary // 2 - 1}; expected at least {2 * pairs + 2}"
            )

    def draw(
        self, rng: np.random.Generator, sequences: int, subset: str, options: Mapping[str, Any]
    ) -> tuple[Table, Table]:
        return draw(rng, sequences, **options)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[Sequence[int]]) -> list[str]:
        """What follows the last number of each input."""
        return [self.tags[tag] for (tag,) in outputs]

    def shortcuts(self, prepared: Prepared[TaggedSequences]) -> Mapping[str, Shortcut]:
        """Also the values in the order of the pairs, whatever the keys: earlier keys come again sooner on average."""

        def in_order(part: TaggedSequences) -> Records:
            queries, pairs = targets_before(part.targets)
            starts = np.repeat(part.inputs.offsets[:-1], part.inputs.lengths)
            values = part.inputs.values[starts + 2 * np.minimum(queries, pairs - 1) + 1]
            return tag_scores(values.astype(int) + 1, part)

        return {**super().shortcuts(prepared), "values in the order of the pairs": in_order}


def draw(
    rng: np.random.Generator,
    sequences: int,
    vocabulary: int,
    length: int,
    pairs: int,
    power: float,
    random_non_queries: bool,
) -> tuple[Table, Table]:
    """Sequences and their targets, `UNSCORED` where there is none."""
    half = vocabulary // 2
    keys = 1 + distinct(rng, sequences, half - 1, pairs)
    values = half + distinct(rng, sequences, vocabulary - half, pairs)
    inputs = np.zeros((sequences, length), dtype=np.int32)
    inputs[:, 0 : 2 * pairs : 2], inputs[:, 1 : 2 * pairs : 2] = keys, values
    gaps = distinct_with(rng, sequences, np.arange(1, length // 2 - pairs + 1) ** (power - 1.0), pairs)
    queries = 2 * pairs + 2 * gaps
    targets = np.full_like(inputs, UNSCORED)
    np.put_along_axis(inputs, queries, keys, axis=1)
    np.put_along_axis(targets, queries, values, axis=1)
    if random_non_queries:
        empty = inputs == 0
        inputs[empty] = rng.integers(0, vocabulary, np.count_nonzero(empty))
    return inputs, targets


def distinct_with(rng: np.random.Generator, rows: int, weights: Sequence[float] | np.ndarray, count: int) -> np.ndarray:
    """`count` different numbers of each row [rows, count], one after the other with probabilities proportional to the
    weights of those that are left: the order of exponential waiting times (Efraimidis & Spirakis 2006)."""
    waiting = rng.standard_exponential((rows, len(weights))) / np.asarray(weights)
    return waiting.argsort(axis=1)[:, :count]
