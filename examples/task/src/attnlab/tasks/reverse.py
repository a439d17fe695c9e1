"""Reversal of words (an example of a task): the letters of a word in reverse order.

One example, number 0 of `train` at data_seed 0:

    input   feccaaab
    output  baaaccef

`test/iid` has other words of the trained lengths, `test/ood` longer ones.
"""

from typing import Annotated

import numpy as np

from attnlab.data.vocabulary import Vocabulary
from attnlab.tasks.word_tasks import SequenceTask

LETTERS = "abcdefgh"


class Reverse(SequenceTask):
    """Reversal of words.

    Args:
        longest_trained: letters of the longest word in training; `test/ood` has up to twice as many.
        train_size: number of words in training.
        data_seed: seed of the words.
    """

    subsets = ("train", "test/iid", "test/ood")
    inputs = outputs = Vocabulary(LETTERS)
    separator = ""

    def __init__(
        self,
        longest_trained: Annotated[int, "[6, 100]"] = 8,
        train_size: Annotated[int, "[1, 100000]"] = 5000,
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.longest_trained, self.train_size, self.data_seed = longest_trained, train_size, data_seed

    def pairs(self) -> dict[str, list[tuple[str, str]]]:
        rng, length, train = np.random.default_rng(self.data_seed), self.longest_trained, self.train_size
        short = words(rng, train + 500, 3, length)
        parts = {"train": short[:train], "test/iid": short[train:], "test/ood": words(rng, 500, length + 1, 2 * length)}
        return {name: [(word, word[::-1]) for word in part] for name, part in parts.items()}


def words(rng: np.random.Generator, number: int, shortest: int, longest: int) -> list[str]:
    """Different random words of random lengths."""
    distinct: dict[str, None] = {}
    while len(distinct) < number:
        distinct["".join(rng.choice(list(LETTERS), rng.integers(shortest, longest + 1)))] = None
    return list(distinct)
