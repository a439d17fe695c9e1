"""CFQ (Keysers et al. 2020, arXiv 1912.09713): questions about films and people, and their queries in SPARQL.

One example, a training question of `split=mcd1` with its query, as on the Hugging Face hub:

    input   Did a person marry a cinematographer , influence M1 , and influence M2
    output  SELECT count ( * ) WHERE { ?x0 a people.person . ?x0 influence.influence_node.influenced M1 . ...

Entities are `M0`, `M1`, ... (the fields questionPatternModEntities and sparqlPatternModEntities). Punctuation marks of
a question are words; queries lose the prefix `ns:`, as in the authors' code and in Csordas et al. 2021.

| split                                | tested on                                                 | train   | test   |
| mcd1, mcd2, mcd3                     | other compounds of the same atoms (maximum divergence)    | 95,743  | 11,968 |
| random                               | other examples                                            | 95,744  | 11,967 |
| query_complexity                     | more complex queries, "output length" in Csordas et al.   | 100,654 | 9,512  |
| question_complexity                  | more complex questions                                    | 98,999  | 10,340 |
| query_pattern                        | new patterns of queries                                   | 94,600  | 12,589 |
| question_pattern                     | new patterns of questions                                 | 95,654  | 11,909 |

The official dev set is not read: it has the distribution of the test, and the authors advise to choose settings on
training examples alone (tensorflow.org/datasets/catalog/cfq). `validation_share` sets some aside as `val`.

`source=files` reads the official archive (267 MB, 4 GB unpacked: minutes, once) or its folder; `source=hub` reads
`google-research-datasets/cfq`. One vocabulary serves all splits. Neither source was at hand when this was written: the
readers follow github google-research/google-research (cfq/preprocess.py and its example data), huggingface/datasets
(datasets/cfq) and RobertCsordas/transformer_generalization (dataset/text/cfq.py), and were tested on files of a few
lines. Whether train and test share examples is counted, and said in every result.
"""

import json
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Unpack

import numpy as np

from attnlab.config.message_text import listed
from attnlab.data.batch import Batch
from attnlab.data.cached_pairs import stored_pairs, write_pairs
from attnlab.data.examples import SequencePairs, digest
from attnlab.data.files.cache import load_arrays, save_arrays
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import DataSource
from attnlab.data.train_test_overlap import shared_in_words
from attnlab.data.vocabulary import Vocabulary
from attnlab.tasks.base import Prepared
from attnlab.tasks.cfq.files import (
    FOLDER,
    PARTS,
    SOURCE,
    SPLITS,
    FileExamples,
    HubExamples,
    Pair,
    Split,
    open_examples,
    question_words,
)
from attnlab.tasks.word_tasks import SequenceOptions, SequenceTask

LENGTH_BINS = (1, 11, 21, 31, 41, 51, 61, 81, 101, 151)
"""lower edges of the ranges of output lengths"""
WORDS_FILE = "words.json"


class Cfq(SequenceTask):
    """CFQ.

    Args:
        split: the official split.
        source: `files`: the official archive or its folder in the data folder, downloaded if it is missing; `hub`:
            `google-research-datasets/cfq` through the package `datasets`.
        data_seed: seed of `val`; the official splits are fixed.
        options: as in SequenceTask.
    """

    version = 1
    subsets = ("train", "test")
    # the official files are fixed: only a validation share is drawn
    drawn_with: ClassVar = {"split": ()}
    published = "mcd1, mcd2, mcd3: train 95,743, test 11,968; random: 95,744, 11,967; query_complexity: 100,654, 9,512"

    def __init__(
        self,
        split: Split = "mcd1",
        source: Literal["files", "hub"] = "files",
        data_seed: Annotated[int, "[0, inf)"] = 0,
        **options: Unpack[SequenceOptions],
    ) -> None:
        super().__init__(**options)
        self.split, self.source, self.data_seed = split, source, data_seed

    def sources(self) -> list[DataSource]:
        return [SOURCE]

    def prepare(self, folders: Folders) -> Prepared[SequencePairs]:
        examples, name = open_examples(self.source, folders), SPLITS[self.split]

        def build(folder: Path) -> None:
            collected = Collected()
            splits = examples.read(collected.add)
            collected.write(folder)
            for split, parts in splits.items():
                save_arrays(folder, **{f"{split}_{part}": numbers for part, numbers in parts.items()})

        options = {"examples": examples.identity}
        folder = self.cached(folders.cache, f"cfq_{self.source}", options, build, f"CFQ from {examples.where}")
        arrays = load_arrays(folder)
        if f"{name}_train" not in arrays:
            split_names = listed(file.removesuffix("_train") for file in arrays if file.endswith("_train"))
            raise DataError(f"{examples.place}: no {FOLDER}{name}.json in it; its splits: {split_names}")
        words = json.loads((folder / WORDS_FILE).read_text(encoding="utf-8"))
        self.inputs, self.outputs = Vocabulary(words["inputs"]), Vocabulary(words["outputs"])
        stored = stored_pairs(arrays, "all", self.inputs.pad_id, LENGTH_BINS)
        self.longest = int(stored.inputs.lengths.max()) - 2, int(stored.targets.lengths.max()) - 1
        numbers = {part: arrays[f"{name}_{part}"] for part in PARTS}
        shared = int(np.isin(numbers["test"], numbers["train"]).sum())
        divided, aside = self.with_validation({part: stored.rows(rows) for part, rows in numbers.items()})
        about = self._about(examples, {part: len(rows) for part, rows in numbers.items()}, shared)
        return self.prepared(divided, "; ".join(filter(None, [about, aside])))

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[str]) -> Batch:
        """Inputs are questions; punctuation marks may touch words."""
        spaced = [" ".join(question_words(text)) if isinstance(text, str) else text for text in inputs]
        return super().encode_inputs(prepared, spaced)

    def _about(self, examples: FileExamples | HubExamples, sizes: dict[str, int], shared: int) -> str:
        counts = ", ".join(f"{part} {size:,}" for part, size in sizes.items())
        official = {part: SOURCE.sizes[f"{self.split}/{part}"] for part in PARTS}
        other = ", ".join(f"{part} {size:,}" for part, size in official.items())
        note = "" if sizes == official else f" (not the official ones: {other})"
        return f"CFQ {self.split} from {examples.where}: {counts}{note}; {shared_in_words({'test': shared}, sizes)}"


class Collected:
    """Different examples with words as numbers in the order of their first use, 2 bytes each."""

    def __init__(self) -> None:
        self.words: tuple[dict[str, int], dict[str, int]] = {}, {}
        self.rows: list[tuple[array, array]] = []
        self.known: dict[bytes, int] = {}

    def add(self, pair: Pair) -> int:
        """The number of an example, by the words of its question and query; equal ones have one number."""
        question, query = (
            array("H", [known.setdefault(word, len(known)) for word in words])
            for words, known in zip(pair, self.words, strict=True)
        )
        number = self.known.setdefault(digest(np.array(question), np.array(query)), len(self.rows))
        if number == len(self.rows):
            self.rows.append((question, query))
        return number

    def write(self, folder: Path) -> None:
        """Writes the words in alphabetical order, and the examples as `all`."""
        words = dict(zip(("inputs", "outputs"), map(sorted, self.words), strict=True))
        (folder / WORDS_FILE).write_text(json.dumps(words, allow_nan=False), encoding="utf-8")
        inputs, outputs = map(Vocabulary, words.values())
        write_pairs(folder, "all", self._encoded(inputs, outputs), inputs, outputs)

    def _encoded(self, inputs: Vocabulary, outputs: Vocabulary) -> Iterator[tuple[list[int], list[int]]]:
        # dictionaries keep the order of first use, which is the order of the numbers
        ids, query_ids = inputs.encode(self.words[0]), outputs.encode(self.words[1])
        for question, query in self.rows:
            yield [ids[number] for number in question], [query_ids[number] for number in query]
