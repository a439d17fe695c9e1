"""Majority of letters (an example of a classification): does a word have more a or more b?

One example, number 0 of `train` at data_seed 0:

    input  bbbaaaaaabbbbbb
    class  more_b
"""

from typing import Annotated

import numpy as np

from attnlab.data.vocabulary import Vocabulary
from attnlab.tasks.word_tasks import ClassificationTask

SIZES = {"train": 2000, "val": 200, "test/iid": 200, "test/ood": 200}


class Majority(ClassificationTask):
    """Majority of letters; words of `test/ood` are three times as long as the others.

    Args:
        length: letters of a word, odd.
        data_seed: seed of the words.
    """

    subsets = ("train", "val", "test/iid", "test/ood")
    inputs = Vocabulary("ab")
    classes = ("more_a", "more_b")
    separator = ""

    def __init__(self, length: Annotated[int, "[9, 999]"] = 15, data_seed: Annotated[int, "[0, inf)"] = 0) -> None:
        self.length, self.data_seed = length, data_seed

    def examples(self) -> dict[str, list[tuple[str, str]]]:
        rng, subsets = np.random.default_rng(self.data_seed), {}
        for name, size in SIZES.items():
            length = self.length * (3 if name == "test/ood" else 1)
            words = ["".join(row) for row in rng.choice(list("ab"), (size, length))]
            subsets[name] = [(word, "more_a" if word.count("a") > word.count("b") else "more_b") for word in words]
        return subsets
