"""Parity of ones so far (a task of a user's own, of the kind tagging): is the number of ones up to here odd?

One example, number 0 of `train` at the default options:

    input   110000
    target  _ even even even even even
"""

import numpy as np

from attnlab.data.vocabulary import Vocabulary
from attnlab.tasks.kinds.tagging import TaggingTask

SIZES = {"train": 2000, "val": 100, "test/iid": 100, "test/ood": 100}


class Parity(TaggingTask):
    """Parity of ones so far; sequences of `test/ood` are twice as long, and the first position has no target.

    Args:
        causal: whether a position sees only the past.
        length: letters of the longest word in training.
    """

    subsets = ("train", "val", "test/iid", "test/ood")
    inputs = Vocabulary("01")
    tags = ("even", "odd")
    separator = ""

    def __init__(self, causal: bool = True, length: int = 6) -> None:
        self.causal, self.length = causal, length

    def examples(self) -> dict[str, list[tuple[str, list[str | None]]]]:
        rng, collected = np.random.default_rng(0), {}
        for name, size in SIZES.items():
            factor = 2 if name == "test/ood" else 1
            words = [rng.integers(0, 2, rng.integers(2, self.length * factor + 1)) for _ in range(size)]
            collected[name] = [("".join(map(str, word)), [None, *self._tags(word)]) for word in words]
        return collected

    def _tags(self, word: np.ndarray) -> list[str]:
        return [self.tags[number % 2] for number in word.cumsum()[1:]]
