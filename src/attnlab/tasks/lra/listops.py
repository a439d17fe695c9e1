"""ListOps (Nangia & Bowman 2018) of the Long Range Arena (Tay et al. 2021, arXiv 2011.04006): what is its value?

One example, number 26 of `train` as generated with `min_length=5, max_length=30` and data_seed 0:

    [SM [MED 3 1 7 6 4 7 ] [SM 6 4 2 7 1 8 3 ] ]  ->  6

Operators are MIN, MAX, MED (median, rounded down) and SM (sum modulo 10). The official files also have the brackets of
the printed tree, `( ( ( [MAX 2 ) 9 ) ...`; as in LRA's pipeline, these round brackets are removed, and expressions
longer than `max_length` are cut (the label is the value of the whole expression). Published lengths are 501 to 1,999
tokens. The values are not uniform: 0 and 9 have 17 % each, the others 7 to 9 %. More than 1,000 nested operations are
refused (the published trees have at most 9).

The official files were drawn at random without a recorded seed; `source=generated` draws from the same distribution
(tasks/lra/listops_generator.py) without a download.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from attnlab.data.batch import LabelledBatch
from attnlab.data.examples import LabelledSequences
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import DataSource, FileTree, bad_line, text_lines
from attnlab.data.files.progress import track
from attnlab.data.user_inputs import TEXT, encoded, labelled_batch
from attnlab.tasks.base import Prepared
from attnlab.tasks.lra import common
from attnlab.tasks.lra.common import LraTask, Row
from attnlab.tasks.lra.listops_generator import DIGITS, TOKENS, Shape, evaluate, expressions
from attnlab.tasks.shortcuts import Shortcut, most_frequent

FOLDER = "listops-1000"
FILES = {f"basic_{subset}.tsv": subset for subset in ("train", "val", "test")}
OFFICIAL = {"train": 96000, "val": 2000, "test": 2000}
STREAMS = {"train": 0, "val": 1, "test": 2}
HEADER = "Source\tTarget"
LENGTH_BINS = (*range(0, 2000, 100), *range(2000, 8000, 500), 8000)


def parse(file: BufferedIOBase, where: str, max_length: int) -> Iterator[Row]:
    """The expressions of an official file, each evaluated, cut to `max_length`, and their values.

    Raises:
        DataError: names `where`, the number of the first wrong line, and the problem.
    """
    for number, line in text_lines(file, where, "ascii"):
        if number == 1:
            if line != HEADER:
                raise bad_line(where, number, f"the header {HEADER!r} expected, found {line[:80]!r}")
            continue
        try:
            tokens, value = parse_line(line)
        except (ValueError, DataError) as error:
            raise bad_line(where, number, str(error)) from None
        yield (tokens[:max_length],), value


def parse_line(line: str) -> tuple[bytes, int]:
    """Token ids and value of a line `<expression><TAB><digit>`.

    Raises:
        ValueError, DataError: the line is invalid, or the expression has another value.
    """
    source, _, target = line.partition("\t")
    if target not in DIGITS:
        raise ValueError(f"an expression, a tab and a digit from 0 to 9 expected, found {target[:20]!r} behind the tab")
    tokens = bytes(_tokens(source))
    if (value := evaluate(tokens)) != int(target):
        raise ValueError(f"the expression means {value}, found {target}")
    return tokens, value


def _tokens(expression: str) -> list[int]:
    return TOKENS.encode(expression.replace("(", "").replace(")", "").split())


class LraListops(LraTask):
    """ListOps of the Long Range Arena.

    Args:
        source: `generated`: drawn here; `official`: LRA's files.
        max_length: maximum number of tokens; generated expressions are shorter, official ones are cut.
        min_length: generated expressions are longer than this.
        max_depth: largest depth of the tree of a generated expression.
        max_args: largest number of arguments of an operator in generated expressions.
        train_size, val_size, test_size: number of generated expressions; all differ, also across subsets.
        data_seed: seed of generated expressions.
    """

    version = 1
    drawn_with: ClassVar = {"source": ("generated",)}
    published = "train 96,000, val 2,000, test 2,000"

    def __init__(
        self,
        source: Literal["generated", "official"] = "generated",
        max_length: Annotated[int, "[1, inf)"] = 2000,
        min_length: Annotated[int, "[0, inf)"] = 500,
        max_depth: Annotated[int, "[1, 1000]"] = 10,
        max_args: Annotated[int, "[2, inf)"] = 10,
        train_size: Annotated[int, "[1, inf)"] = 96000,
        val_size: Annotated[int, "[1, inf)"] = 2000,
        test_size: Annotated[int, "[1, inf)"] = 2000,
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.source, self.data_seed = source, data_seed
        self.shape = Shape(min_length=min_length, max_length=max_length, max_depth=max_depth, max_args=max_args)
        self.sizes = {"train": train_size, "val": val_size, "test": test_size}

    def sources(self) -> list[DataSource]:
        if self.source == "generated":
            return []
        return [common.release_source("LRA's ListOps", FOLDER, "lra_listops", "listops")]

    def example(self, prepared: Prepared[LabelledSequences], subset: str, number: int) -> str:
        part = prepared.subsets[subset]
        expression = " ".join(TOKENS.decode(part.inputs[number].tolist()))
        return f"{common.shortened(expression)}  ->  {part.answers[number]}"

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[str]) -> LabelledBatch:
        """Inputs are expressions such as `[MAX 2 9 [MIN 4 7 ] 0 ]`; parentheses are left out, as in the files."""
        return labelled_batch(encoded(inputs, TEXT, _tokens), TOKENS.pad_id)

    def token_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return TOKENS.words, TOKENS.words

    def shortcuts(self, prepared: Prepared[LabelledSequences]) -> Mapping[str, Shortcut]:
        """Also the most frequent value of expressions with the same outermost operator."""

        def outermost(part: LabelledSequences) -> list[int]:
            return part.inputs.values[part.inputs.offsets[:-1]].tolist()

        by_operator = most_frequent(prepared.subsets["train"], outermost)
        return {**super().shortcuts(prepared), "most frequent answer by outermost operator": by_operator}

    def prepare(self, folders: Folders) -> Prepared[LabelledSequences]:
        spec = self.task_spec(
            input_vocabulary=len(TOKENS),
            n_classes=len(DIGITS),
            pad_id=TOKENS.pad_id,
            max_input_length=self.shape.max_length,
        )
        folder = self._official(folders) if self.source == "official" else self._generated(folders.cache)
        subsets = common.read_subsets(LabelledSequences, folder, STREAMS, TOKENS.pad_id, LENGTH_BINS)
        return Prepared(spec=spec, subsets=subsets, about=self._about({name: len(s) for name, s in subsets.items()}))

    def _about(self, sizes: dict[str, int]) -> str:
        if self.source == "official":
            return f"LRA's ListOps, {common.counted(sizes, OFFICIAL, 'not the official files: ')}"
        shape, drawn = self.shape, ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        return (
            f"ListOps generated by attnlab with data_seed {self.data_seed}, more than {shape.min_length:,} and fewer "
            f"than {shape.max_length:,} tokens, not the official files: {drawn}"
        )

    def _official(self, folders: Folders) -> Path:
        wanted, length = common.named(FILES, FOLDER), self.shape.max_length
        return self.read_once(folders, "lra_listops_official", wanted, self._read, max_length=length)[1]

    def _read(self, tree: FileTree, folder: Path) -> None:
        common.write_files(tree, folder, FOLDER, FILES, partial(parse, max_length=self.shape.max_length))

    def _generated(self, cache: Path) -> Path:
        if self.shape.max_length - self.shape.min_length < 2:
            raise DataError(
                f"task.min_length={self.shape.min_length}, task.max_length={self.shape.max_length}: no length is more "
                "than the one and less than the other"
            )
        options = {**vars(self.shape), **self.sizes, "data_seed": self.data_seed}
        return self.cached(cache, "lra_listops_generated", options, self._generate)

    def _generate(self, folder: Path) -> None:
        seen: set[bytes] = set()
        # the test set comes first, so that it does not depend on the other sizes
        for subset in ("test", "val", "train"):
            size = self.sizes[subset]
            drawn = islice(expressions(self.shape, self.data_seed, STREAMS[subset], seen), size)
            rows = (((tokens,), evaluate(tokens)) for tokens in drawn)
            common.write_subset(folder, subset, track(rows, f"drawing ListOps {subset}", size))
