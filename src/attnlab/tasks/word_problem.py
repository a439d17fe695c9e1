"""Word problems of groups (Merrill et al. 2024, arXiv 2404.08819): the product of a sequence of group elements so far.

One example, number 0 of `train` of `group=S5` at `length=5` and data_seed 0:

    input   41230 21403 34021 14023 40321
    target  41230 21043 43201 31420 03241

A target stands at every position. The numbers modulo 60 (`Z60`) commute; the even permutations of five things (`A5`)
and all of them (`S5`) do not, and are not solvable: their word problems are complete for NC1, which no transformer of
constant depth and no linear recurrence with diagonal transitions is thought to compute (Merrill et al., section 3).
Delta rules with negative eigenvalues do better on them than others (Grazzi et al. 2024, arXiv 2411.12537).

A permutation is written as the images of 0 1 2 3 4; the product ab is a after b: (ab)(i) = a(b(i)). Elements are drawn
independently, all equally likely, and all sequences have the same length. With `elements=transpositions` (`S5`) only
the ten that swap two things are drawn; products are any of the 120. Lengths and sizes of the network are ours.
"""

from collections.abc import Mapping
from itertools import permutations
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Int

from attnlab.config.message_text import show
from attnlab.data.files.fetch import DataError
from attnlab.data.vocabulary import Symbols
from attnlab.tasks.base import Prepared
from attnlab.tasks.drawn_tagging import DrawnTagging, Part, Table, require_different
from attnlab.tasks.kinds.tagging import TaggedSequences, tag_scores
from attnlab.tasks.shortcuts import Records, Shortcut


class WordProblem(DrawnTagging):
    """Word problems of three groups, generated on first use.

    Args:
        group: `Z60`, `A5` or `S5`.
        elements: what is drawn; `transpositions` of S5 alone.
        length: elements of a sequence of `train`, `val` and `test/iid`.
        test_lengths: elements of a sequence of `test/ood`, as many sequences of each length.
        train_examples, val_examples, test_examples: number of sequences (of each length in `test/ood`).
        data_seed: seed of the sequences.
    """

    causal = True
    subsets = ("train", "val", "test/iid", "test/ood")
    published = "Z60, A5 and others, sequences of 2 to 20 elements"

    def __init__(
        self,
        group: Literal["Z60", "A5", "S5"] = "S5",
        elements: Literal["all", "transpositions"] = "all",
        length: Annotated[int, "[1, inf) up to 1e5"] = 32,
        test_lengths: list[Annotated[int, "[1, inf) up to 1e5"]] | None = None,
        train_examples: Annotated[int, "[1, inf)"] = 1_000_000,
        val_examples: Annotated[int, "[1, inf)"] = 2000,
        test_examples: Annotated[int, "[1, inf)"] = 2000,
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.group, self.elements = group, elements
        self.length = length
        self.test_lengths = [2 * length, 5 * length] if test_lengths is None else test_lengths
        self.train_examples, self.val_examples, self.test_examples = train_examples, val_examples, test_examples
        self.data_seed = data_seed
        self.tags, self.products = multiplication_table(group)
        self.inputs = Symbols(self.tags)

    def parts(self) -> dict[str, list[Part]]:
        if self.elements == "transpositions" and self.group != "S5":
            raise DataError(f"task.elements=transpositions: {self.group} has none; task.group=S5 has ten")
        require_different("task.test_lengths", self.test_lengths)
        if min(self.test_lengths, default=0) <= self.length:
            claim = f"task.test_lengths={show(self.test_lengths)}"
            raise DataError(f"{claim}: expected more than task.length={self.length} each, or null")
        numbers = {"train": self.train_examples, "val": self.val_examples, "test/iid": self.test_examples}
        common = {"group": self.group, "elements": self.elements}
        parts = {name: [Part(number, {**common, "length": self.length})] for name, number in numbers.items()}
        return parts | {
            "test/ood": [Part(self.test_examples, {**common, "length": n}) for n in sorted(self.test_lengths)]
        }

    def draw(
        self, rng: np.random.Generator, sequences: int, subset: str, options: Mapping[str, Any]
    ) -> tuple[Table, Table]:
        drawn = np.arange(len(self.tags), dtype=np.int32)
        if options["elements"] == "transpositions":
            drawn = drawn[[sum(name[i] == str(i) for i in range(5)) == 3 for name in self.tags]]
        inputs = rng.choice(drawn, (sequences, options["length"]))
        return inputs, running_products(inputs, self.products)

    def shortcuts(self, prepared: Prepared[TaggedSequences]) -> Mapping[str, Shortcut]:
        """Also the product of the last two elements, as if the sequence began with them."""

        def last_two(part: TaggedSequences) -> Records:
            elements = part.inputs.values.astype(int) - len(self.inputs.special)
            before = np.roll(elements, 1)
            # the neutral one
            before[part.inputs.offsets[:-1]] = 0
            return tag_scores(self.products[before, elements] + 1, part)

        return {**super().shortcuts(prepared), "product of the last two elements": last_two}


def multiplication_table(group: str) -> tuple[tuple[str, ...], Int[np.ndarray, "elements elements"]]:
    """Names of the elements, the neutral one first, and the number of each product."""
    if group == "Z60":
        numbers = np.arange(60, dtype=np.int32)
        return tuple(map(str, numbers)), (numbers[:, None] + numbers) % 60
    elements = np.array([p for p in permutations(range(5)) if group == "S5" or _is_even(p)])
    codes = elements @ 5 ** np.arange(5)[::-1]
    # elements are in ascending order, and so are their codes
    products = np.searchsorted(codes, elements[:, elements] @ 5 ** np.arange(5)[::-1])
    return tuple("".join(map(str, element)) for element in elements), products.astype(np.int32)


def _is_even(permutation: tuple[int, ...]) -> bool:
    swapped = sum(permutation[i] > permutation[j] for j in range(5) for i in range(j))
    return swapped % 2 == 0


def running_products(inputs: Table, products: Int[np.ndarray, "elements elements"]) -> Table:
    """The product of the elements up to each position, the first one on the left."""
    results = inputs.copy()
    for place in range(1, inputs.shape[1]):
        results[:, place] = products[results[:, place - 1], inputs[:, place]]
    return results
