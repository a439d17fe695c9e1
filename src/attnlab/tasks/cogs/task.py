"""COGS (Kim & Linzen 2020, arXiv 2010.05465): sentences of a small English, and their logical forms.

One example, number 2 of `train`:

    input   Emma rolled a teacher .
    output  roll . agent ( x _ 1 , Emma ) AND roll . theme ( x _ 1 , x _ 3 ) AND teacher ( x _ 3 )

`x _ 3` is the thing or event that word number 3 of the sentence stands for. Some words are in one training sentence
alone, or are it; `test/gen` has them elsewhere (18 lexical kinds), or has structures that training does not have (3
structural kinds), 1,000 sentences each.

| subset   | file      | rows   | what                                                                               |
| train    | train.tsv | 24,155 | sentences, 143 single words, 12 sentences with a word that is in no other one      |
| val      | dev.tsv   | 3,000  | as trained                                                                         |
| test/iid | test.tsv  | 3,000  | as trained                                                                         |
| test/gen | gen.tsv   | 21,000 | 21 kinds of generalisation, each a group, and groups `lexical` and `structural`    |

The files are read from a clone of github najoungkim/COGS, from an archive of a clone, or downloaded. No sentence of
another file is in train.tsv. Logical forms of `test/gen` have up to 480 tokens, in training up to 153, and go to
`x _ 59`, in training to `x _ 18`: 1,634 rows (844 of cp_recursion, 782 of pp_recursion, 8 lexical ones) need a word
that no training output has, so that a model over words gets at most 92.2 %. gen.tsv was corrected in 2022 (50 rows of
obj_pp_to_subj_pp): numbers published before, those of Csordas et al. 2021 too, are on the earlier file. Csordas et al.
train to a fixed last step and select nothing by dev.tsv; one vocabulary serves sentences and logical forms, as in their
code. The larger training set of the paper's appendix (train_100.tsv) is not read.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from attnlab.config.message_text import listed
from attnlab.data.cached_pairs import stored_pairs, write_pairs
from attnlab.data.examples import SequencePairs
from attnlab.data.files.cache import load_arrays, save_arrays
from attnlab.data.files.fetch import Folders
from attnlab.data.files.folder_or_archive import DataSource
from attnlab.data.files.official_files import FileContent
from attnlab.data.train_test_overlap import overlap_in_words
from attnlab.tasks.base import Prepared
from attnlab.tasks.cogs.files import (
    FILES,
    KINDS,
    LEXICAL,
    MAX_INPUT,
    MAX_OUTPUT,
    OFFICIAL,
    STRUCTURAL,
    WORDS,
    read_rows,
)
from attnlab.tasks.word_tasks import SequenceTask

LENGTH_BINS = (1, 26, 51, 76, 101, 126, 154, 201, 251, 301, 401)
"""lower edges of the ranges of output lengths; training has up to 153 tokens"""


class Cogs(SequenceTask):
    """COGS.

    Args:
        end_token: as in SequenceTask.
    """

    version = 1
    inputs, outputs, longest = WORDS, WORDS, (MAX_INPUT, MAX_OUTPUT)
    has_groups = True
    subsets = tuple(FILES)
    published = "train 24,155, val 3,000, test/iid 3,000, test/gen 21,000 (21 kinds of 1,000)"

    def __init__(self, end_token: bool = True) -> None:
        super().__init__(end_token=end_token)

    def sources(self) -> list[DataSource]:
        return [OFFICIAL]

    def prepare(self, folders: Folders) -> Prepared[SequencePairs]:
        files = OFFICIAL.read(list(FILES.values()), folders)
        options = {"files": {path: files[path].sha256 for path in files}}
        arrays = load_arrays(self.cached(folders.cache, "cogs", options, partial(_build, files=files), "COGS"))
        subsets = {subset: stored_pairs(arrays, subset, WORDS.pad_id, LENGTH_BINS) for subset in FILES}
        subsets["test/gen"].groups = groups_of(arrays["kinds"])
        shared = overlap_in_words({subset: pairs.inputs for subset, pairs in subsets.items()})
        counts = ", ".join(f"{subset} {len(pairs):,}" for subset, pairs in subsets.items())
        others = [path for path in FILES.values() if not files[path].is_official]
        origin = f"not the official {listed(others)}" if others else "official files"
        return self.prepared(subsets, f"COGS, {origin}: {counts}; {shared}")


def groups_of(kinds: np.ndarray) -> dict[str, np.ndarray]:
    """Row numbers of the lexical kinds, of the structural kinds, and of each kind, without empty groups.

    Args:
        kinds: [n] numbers in `KINDS`.
    """
    together = {"lexical": LEXICAL, "structural": STRUCTURAL, **{kind: (kind,) for kind in KINDS}}
    groups = {name: np.flatnonzero(np.isin(kinds, list(map(KINDS.index, of)))) for name, of in together.items()}
    return {name: rows for name, rows in groups.items() if len(rows)}


def _build(folder: Path, files: Mapping[str, FileContent]) -> None:
    for subset, path in FILES.items():
        rows = list(read_rows(files[path]))
        write_pairs(folder, subset, ((row.sentence, row.form) for row in rows), WORDS, WORDS)
        if subset == "test/gen":
            save_arrays(folder, kinds=np.array([KINDS.index(row.kind) for row in rows], dtype=np.uint8))
