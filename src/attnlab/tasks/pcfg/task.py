"""PCFG SET (Hupkes et al. 2020, arXiv 1908.08351): expressions of ten string functions, and the strings they stand for.

One example, the first line of the official files `pcfgset/test.src` and `pcfgset/test.tgt`:

    reverse shift append V12 P3 R9 J8 , repeat K19 C16 P13
    V12 P13 C16 K19 P13 C16 K19 J8 R9 P3

A unary function (copy, reverse, shift, swap_first_last, repeat, echo) takes what follows, a binary one (append,
prepend, remove_first, remove_second) takes two arguments with a comma between; there are no brackets. Symbols: A1 to
Z20.

| split              | trained on                                         | tested on                                  |
| iid                | 82,622 random rows                                 | 9,721 other rows                           |
| systematicity      | rows without four pairs of neighbouring functions  | rows with one (10,175)                     |
| productivity       | rows of at most 8 functions, up to 200 symbols out | 9 to 35 functions, up to 736 symbols out   |
| substitutivity     | rows where four functions have synonyms, `_twin`   | 10,000 rows; twin: the same with synonyms  |
| overgeneralisation | a few rows where pairs of functions mean others    | those rows, by the rules and as exceptions |
| small_10k          | 7,779 random rows of a smaller set                 | 916 other rows                             |

The data is read from a clone of github i-machine-think/am-i-compositional (small_10k: MathijsMul/pcfg-set), from an
archive of a clone, or downloaded. An interpreter checks every target (tasks/pcfg/interpreter.py). The official `dev`
files of iid and small_10k are not read, because Csordas et al. 2021 do not select by them; `validation_share` sets some
training rows of any split aside as `val`. The paper's localism test is
missing: it feeds a model's outputs for parts of an expression back to the model.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Unpack

import numpy as np

from attnlab.data.cached_pairs import stored_pairs, write_pairs
from attnlab.data.examples import SequencePairs
from attnlab.data.files.cache import load_arrays
from attnlab.data.files.fetch import Folders
from attnlab.data.files.folder_or_archive import DataSource
from attnlab.data.files.official_files import FileContent
from attnlab.data.ragged_arrays import Ragged
from attnlab.tasks.base import Prepared
from attnlab.tasks.pcfg.files import OFFICIAL, Readings, exceptional, read_pairs, regular, regular_or_exceptional
from attnlab.tasks.pcfg.interpreter import FUNCTIONS, MAX_INPUT, MAX_OUTPUT, TWINS, WORDS, interpret
from attnlab.tasks.word_tasks import SequenceOptions, SequenceTask

LENGTH_BINS = (1, 6, 11, 16, 21, 26, 31, 41, 51, 76, 101, 151, 201, 301)
"""lower edges of the ranges of output lengths; official training rows of productivity have at most 200 symbols"""
DEPTHS = {"functions_1_4": 1, "functions_5_8": 5, "functions_9_12": 9, "functions_13_16": 13, "functions_17_35": 17}
"""groups of test rows by the number of functions in the input; values are lower edges"""


class Pcfg(SequenceTask):
    """PCFG SET.

    Args:
        split: the test has other rows (iid, small_10k), unseen pairs of functions (systematicity), more functions
            (productivity), synonyms of functions (substitutivity), or exceptions to the rules (overgeneralisation).
        substitutivity: the synonyms in training, for `split=substitutivity`: `primitive` (each only as the sole
            function of an input, as in Csordas et al. 2021) or `equally_distributed` (in half of the occurrences).
        overgeneralisation: the number of exceptions in training, for `split=overgeneralisation`, as a share of the
            occurrences of the rarer function of the pair. The paper has the first four values, the repository all six.
        data_seed: seed of `val`; the official splits are fixed.
        options: as in SequenceTask; sizes are numbers of functions. With `split=overgeneralisation`, exceptions are
            never in `val`.
    """

    version = 1
    size_unit = "functions"
    inputs, outputs, longest = WORDS, WORDS, (MAX_INPUT, MAX_OUTPUT)
    has_groups = True
    subsets = ("train", "test")
    subsets_with: ClassVar = {
        "split": {
            "substitutivity": ("train", "test", "test/twin"),
            "overgeneralisation": ("train", "test/original", "test/exception"),
        }
    }
    # the official files are fixed: only a validation share is drawn
    drawn_with: ClassVar = {"split": ()}
    published = "iid: train 82,622, test 9,721; systematicity: 82,168, 10,175; productivity: 81,010, 11,333"

    def __init__(
        self,
        split: Literal[
            "iid", "systematicity", "productivity", "substitutivity", "overgeneralisation", "small_10k"
        ] = "productivity",
        substitutivity: Literal["primitive", "equally_distributed"] = "primitive",
        # numbers that typing does not allow; the configuration check does
        overgeneralisation: Literal[0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05] = 0.001,  # type: ignore[valid-type]
        data_seed: Annotated[int, "[0, inf)"] = 0,
        **options: Unpack[SequenceOptions],
    ) -> None:
        super().__init__(**options)
        self.data_seed = data_seed
        self.split, self.substitutivity, self.overgeneralisation = split, substitutivity, overgeneralisation
        self.official = OFFICIAL["pcfg-set" if split == "small_10k" else "am-i-compositional"]

    def sources(self) -> list[DataSource]:
        return [replace(self.official, title=f"PCFG SET's official split {self.split}")]

    def example(self, prepared: Prepared[SequencePairs], subset: str, number: int) -> str:
        pairs = prepared.subsets[subset]
        return "\n".join(" ".join(WORDS.decode(row)) for row in (pairs.inputs[number], pairs.targets[number]))

    def prepare(self, folders: Folders) -> Prepared[SequencePairs]:
        stems = self._stems()
        paths = [stem + ending for stem in stems.values() for ending in (".src", ".tgt")]
        files = self.official.read(paths, folders)
        options = {"subsets": stems, "files": {path: files[path].sha256 for path in paths}}
        data_name = f"PCFG SET, {self.split}"
        build = partial(self._build, stems=stems, files=files)
        arrays = load_arrays(self.cached(folders.cache, f"pcfg_{self.split}", options, build, data_name))
        subsets = {name: _pairs(arrays, name) for name in stems}
        sentences = [self._about(name, stem, len(subsets[name])) for name, stem in stems.items()]
        divided, aside = self.with_validation(subsets, lambda: self._staying(subsets["train"]))
        return self.prepared(divided, f"{data_name}: {'; '.join([*sentences, *filter(None, [aside])])}.")

    def sizes(self, pairs: SequencePairs) -> np.ndarray:
        return depths(pairs.inputs)

    def _staying(self, train: SequencePairs) -> np.ndarray | None:
        """Mask of the training rows that are never set aside, repeated ones apart; None = none."""
        if self.split != "overgeneralisation":
            return None
        # the few rows that the rules do not explain
        decoded = [[WORDS.decode(side[i]) for i in range(len(train))] for side in (train.inputs, train.targets)]
        return np.array([interpret(words) != out for words, out in zip(*decoded, strict=True)])

    def _stems(self) -> dict[str, str]:
        """Path of each subset's files without `.src` and `.tgt`."""
        match self.split:
            case "substitutivity":
                folder = f"substitutivity/{self.substitutivity}"
                return {"train": f"{folder}/train", "test": f"{folder}/test", "test/twin": f"{folder}/test_twin"}
            case "overgeneralisation":
                name = f"pcfg_ratio={self.overgeneralisation}"
                tests = {f"test/{kind}": f"{self.split}/test_{name}_{kind}" for kind in ("original", "exception")}
                return {"train": f"{self.split}/train_{name}", **tests}
        folder = {"iid": "pcfgset", "small_10k": "10K/random_split"}.get(self.split, self.split)
        return {"train": f"{folder}/train", "test": f"{folder}/test"}

    def _readings(self, subset: str) -> Readings:
        if self.split != "overgeneralisation" or subset == "test/original":
            return regular
        return regular_or_exceptional if subset == "train" else exceptional

    def _about(self, subset: str, stem: str, rows: int) -> str:
        """Origin of a subset's rows, as far as it is known: `test 9,721 official rows`."""
        expected = self.official.sizes.get(stem)
        if f"{stem}.src" in self.official.files:
            return f"{subset} {rows:,} official rows"
        if expected is None:
            return f"{subset} {rows:,} rows, unknown whether the official ones (there is no checksum)"
        if rows != expected:
            return f"{subset} is not the official file: {rows:,} rows where {expected:,} are expected"
        return f"{subset} {rows:,} rows, as many as the official file has (there is no checksum)"

    def _build(self, cache_folder: Path, stems: Mapping[str, str], files: Mapping[str, FileContent]) -> None:
        for subset, stem in stems.items():
            inputs, targets = files[f"{stem}.src"], files[f"{stem}.tgt"]
            pairs = read_pairs(inputs, targets, self._readings(subset), f"PCFG SET {stem}")
            write_pairs(cache_folder, subset, pairs, WORDS, WORDS)
            inputs.require_official()
            targets.require_official()


def _pairs(arrays: Mapping[str, np.ndarray], subset: str) -> SequencePairs:
    pairs = stored_pairs(arrays, subset, WORDS.pad_id, LENGTH_BINS)
    return pairs if subset == "train" else replace(pairs, groups=by_depth(pairs.inputs))


def depths(inputs: Ragged) -> np.ndarray:
    """Number of functions [n] in each input."""
    numbers = WORDS.encode((*FUNCTIONS, *TWINS))
    functions = (inputs.values >= min(numbers)) & (inputs.values <= max(numbers))
    return np.add.reduceat(functions, inputs.offsets[:-1], dtype=np.int64)


def by_depth(inputs: Ragged) -> dict[str, np.ndarray]:
    """Row numbers by the number of functions in the input (`DEPTHS`), without empty groups."""
    group = np.searchsorted(list(DEPTHS.values()), depths(inputs), side="right") - 1
    return {name: np.flatnonzero(group == i) for i, name in enumerate(DEPTHS) if (group == i).any()}
