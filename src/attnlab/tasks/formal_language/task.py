"""Formal languages of the Chomsky hierarchy (Deletang et al. 2023, arXiv 2207.02098): 15 tasks, tested on long inputs.

One example, number 0 of `test/ood` of `dataset=bucket_sort` at `length=9`, shown without the empty symbols:

    input   0 3 4 4 0 2 2 4 1 2
    output  0 0 1 2 2 2 3 4 4 4

The network reads the input, then as many empty symbols as there are outputs, and gives one output at each of them in
one pass; it does not read its outputs. Trained on lengths 1 to 40, tested up to 500. The published score is the mean
over the lengths above 40 of the accuracy at each, `test/ood/mean_accuracy_over_lengths` here. Some outputs end before
their last place: training counts what follows (zeros), tests do not, as in the published code (github
google-deepmind/neural_networks_chomsky_hierarchy, 2b8eb4b).

Its batches have one length each, drawn anew for ever; here a batch has inputs of several lengths, from a fixed number
of training examples. `modular_arithmetic` has odd lengths alone: of an even length, one symbol less. `languages.py` has
the definitions; `tests/tasks/test_formal_language.py` compares them with samples of the published code. All inputs are
drawn here. Few different inputs are short, so that `test/iid` shares some with training; every result says how many.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from attnlab.data.batch import LanguageBatch
from attnlab.data.files.fetch import DataError
from attnlab.data.user_inputs import TEXT, encoded, language_batch
from attnlab.data.vocabulary import Symbols
from attnlab.tasks.base import Prepared
from attnlab.tasks.drawn_tagging import UNSCORED, DrawnTagging, Part, Table, spread
from attnlab.tasks.formal_language.languages import END, LANGUAGES
from attnlab.tasks.kinds.tagging import NONE, TaggedSequences
from attnlab.tasks.word_tasks import words_of

# fmt: off
Name = Literal[
    "even_pairs", "modular_arithmetic", "parity_check", "cycle_navigation", "stack_manipulation", "reverse_string",
    "modular_arithmetic_brackets", "solve_equation", "duplicate_string", "missing_duplicate_string", "odds_first",
    "binary_addition", "binary_multiplication", "compute_sqrt", "bucket_sort",
]
# fmt: on
EMPTY = "<empty>"


class FormalLanguage(DrawnTagging):
    """Tasks of formal languages, generated on first use.

    Args:
        dataset: name of the task.
        causal: whether a position sees only itself and what comes before it; the published networks see both sides.
        length: longest input of `train`, `val` and `test/iid`, which have all lengths from 1 on equally often.
        test_length: longest input of `test/ood`, which begins at `length` + 1.
        test_step: difference between two lengths of `test/ood`.
        train_examples: number of inputs.
        val_examples, test_examples: number of inputs of each length.
        data_seed: seed of the inputs.
    """

    subsets = ("train", "val", "test/iid", "test/ood")
    metrics = ("accuracy", "mean_accuracy_over_lengths", "sequence_accuracy")
    published = "lengths 1 to 40, drawn anew at every step; test/ood 512 inputs of each length from 41 to 500"

    def __init__(
        self,
        dataset: Name = "parity_check",
        causal: bool = False,
        length: Annotated[int, "[1, inf) up to 1e5"] = 40,
        test_length: Annotated[int, "[2, inf) up to 1e5"] = 500,
        test_step: Annotated[int, "[1, inf) up to 1e5"] = 1,
        train_examples: Annotated[int, "[1, inf)"] = 1_000_000,
        val_examples: Annotated[int, "[1, inf)"] = 32,
        test_examples: Annotated[int, "[1, inf)"] = 512,
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.dataset, self.causal, self.data_seed = dataset, causal, data_seed
        self.length, self.test_length, self.test_step = length, test_length, test_step
        self.train_examples, self.val_examples, self.test_examples = train_examples, val_examples, test_examples
        self.language = LANGUAGES[dataset]
        self.inputs, self.tags = Symbols((*self.language.inputs, EMPTY)), self.language.outputs

    def parts(self) -> dict[str, list[Part]]:
        # an even length of modular_arithmetic is one symbol shorter
        first = self.length + 1 + (self.dataset == "modular_arithmetic" and self.length % 2)
        if self.test_length < first:
            above = f"above task.length={self.length}"
            raise DataError(f"task.test_length={self.test_length}: test/ood is {above}; expected {first} or more")
        short, longer = range(1, self.length + 1), range(first, self.test_length + 1, self.test_step)
        numbers = {
            "train": dict(zip(short, spread(self.train_examples, self.length), strict=True)),
            "val": dict.fromkeys(short, self.val_examples),
            "test/iid": dict.fromkeys(short, self.test_examples),
            "test/ood": dict.fromkeys(longer, self.test_examples),
        }
        dataset = self.dataset
        return {
            name: [
                Part(number, {"dataset": dataset, "length": length}) for length, number in by_length.items() if number
            ]
            for name, by_length in numbers.items()
        }

    def draw(
        self, rng: np.random.Generator, sequences: int, subset: str, options: Mapping[str, Any]
    ) -> tuple[Table, Table]:
        language = self.language
        inputs = language.draw(rng, sequences, options["length"])
        outputs = language.answer(inputs).reshape(sequences, -1).astype(np.int32)
        if language.ends and subset != "train":
            behind = np.arange(outputs.shape[1]) > (outputs == END).argmax(1)[:, None]
            outputs = np.where(behind, UNSCORED, outputs)
        empty = np.full_like(outputs, len(language.inputs))
        table = np.concatenate((inputs, empty), axis=1)
        return table, np.concatenate((np.full_like(inputs, UNSCORED), outputs), axis=1)

    def load(self, subset: str, parts: Sequence[Part], cache: Path) -> TaggedSequences:
        """Lengths are without empty symbols."""
        part = super().load(subset, parts, cache)
        symbols = (part.inputs.values != len(self.inputs) - 1).astype(np.int64)
        part.lengths = np.add.reduceat(symbols, part.inputs.offsets[:-1])
        return part

    def example(self, prepared: Prepared, subset: str, number: int) -> str:
        part = prepared.subsets[subset]
        words = self.inputs.decode(part.inputs[number][: part.lengths[number]])
        outputs = [self.tags[tag - 1] for tag in part.targets[number] if tag != NONE]
        return f"input   {' '.join(words)}\noutput  {' '.join(self._until_end(outputs))}"

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[str]) -> LanguageBatch:
        """Inputs are texts of symbols with blanks between them."""

        def ids(text: str) -> list[int]:
            words = words_of(text, self.separator)
            if EMPTY in words:
                raise DataError(f"{EMPTY} stands for an output and is added to the input; leave it out")
            return self.inputs.encode([*words, *[EMPTY] * self.language.size(len(words))])

        return language_batch(encoded(inputs, TEXT, ids), self.inputs.pad_id)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[Sequence[int]]) -> list[str]:
        """The outputs of each input, up to the first `end`."""
        texts = []
        for row in outputs:
            length = next(length for length in range(len(row)) if length + self.language.size(length) == len(row))
            texts.append(" ".join(self._until_end([self.tags[tag] for tag in row[length:]])))
        return texts

    def _until_end(self, outputs: Sequence[str]) -> Sequence[str]:
        return outputs[: outputs.index("end")] if "end" in outputs else outputs
