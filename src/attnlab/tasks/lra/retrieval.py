"""Retrieval of the Long Range Arena (Tay et al. 2021, arXiv 2011.04006): does one paper cite the other? By bytes.

The data is pairs of papers of the ACL Anthology Network (Radev et al. 2013) in three files of tab-separated lines
without header, `new_aan_pairs.{train,eval,test}.tsv`: label (1 cites, 0 does not), two paper ids, two texts. One
example of this layout, line 381 of the stand-in that the tests write (the papers are only in LRA's release):

    1.0<TAB>P00-0380<TAB>W00-0380<TAB>b'jazz, jazz and jazz again.'<TAB>b'On jazz after jazz, with more jazz.'

As in LRA's pipeline, the texts keep the marks around them; a byte is its own token id (0 is padding), and each side is
cut to `max_length` bytes, 4,000 as published.

**Published results form two groups that cannot be compared:** near 57 % with Google's code, near 80 % with Skyformer's;
both read these files.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import Annotated

from attnlab.data.batch import LabelledPairBatch
from attnlab.data.examples import LabelledPairs
from attnlab.data.files.fetch import Folders
from attnlab.data.files.folder_or_archive import DataSource, FileTree, bad_line
from attnlab.data.user_inputs import TWO_TEXTS, encoded, pair_batch
from attnlab.tasks.base import Prepared
from attnlab.tasks.lra import common
from attnlab.tasks.lra.common import LraTask

FOLDER = "tsv_data"
FILES = {
    f"new_aan_pairs.{part}.tsv": subset for part, subset in (("train", "train"), ("eval", "val"), ("test", "test"))
}
OFFICIAL = {"train": 147086, "val": 18090, "test": 17437}
FIELDS = 5
NAMES = ("does not cite", "cites")
LABELS = {b"0": 0, b"1": 1, b"0.0": 0, b"1.0": 1}


def parse(file: BufferedIOBase, where: str, max_length: int) -> Iterator[common.Row]:
    """Both texts of each pair, cut to `max_length` bytes, and the label.

    Raises:
        DataError: names `where`, the number of the first wrong line, and the problem.
    """
    for number, line in enumerate(file, start=1):
        fields = line.rstrip(b"\r\n").split(b"\t")
        if len(fields) != FIELDS:
            layout = "label, two ids and two texts between tabs expected"
            raise bad_line(where, number, f"{layout}, found {len(fields)} of these {FIELDS} fields")
        if fields[0] not in LABELS:
            raise bad_line(where, number, f"label 0 or 1 expected, found {fields[0][:20].decode(errors='replace')!r}")
        texts = tuple(common.byte_tokens(text, max_length) for text in fields[3:])
        if not all(texts):
            raise bad_line(where, number, "an empty text")
        yield texts, LABELS[fields[0]]


class LraRetrieval(LraTask):
    """Document retrieval of the Long Range Arena.

    Args:
        max_length: maximum number of bytes of each text.
    """

    modality = "token_pairs"
    version = 1
    published = "pairs: train 147,086, val 18,090, test 17,437"

    def __init__(self, max_length: Annotated[int, "[1, inf)"] = 4000) -> None:
        self.max_length = max_length

    def sources(self) -> list[DataSource]:
        return [common.release_source("LRA's retrieval pairs (AAN)", FOLDER, "lra_retrieval", "aan")]

    def example(self, prepared: Prepared[LabelledPairs], subset: str, number: int) -> str:
        part = prepared.subsets[subset]
        sides = (side[number].tobytes().decode("utf-8", errors="replace") for side in (part.inputs, part.others))
        first, second = map(common.shortened, sides)
        return f"{first}\n{second}\n->  {NAMES[part.answers[number]]}"

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[tuple[str, str]]) -> LabelledPairBatch:
        """Inputs are pairs of texts."""
        pairs = encoded(inputs, TWO_TEXTS, lambda pair: [common.text_ids(text, self.max_length) for text in pair])
        return pair_batch([first for first, _ in pairs], [second for _, second in pairs], 0)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[int]) -> list[str]:
        return [NAMES[output] for output in outputs]

    def prepare(self, folders: Folders) -> Prepared[LabelledPairs]:
        wanted = common.named(FILES, FOLDER)
        _, folder = self.read_once(folders, "lra_retrieval", wanted, self._build, max_length=self.max_length)
        subsets = common.read_subsets(LabelledPairs, folder, FILES.values(), 0, common.TEXT_BINS)
        spec = self.task_spec(input_vocabulary=256, n_classes=2, max_input_length=self.max_length)
        counts = {name: len(subset) for name, subset in subsets.items()}
        sizes = common.counted(counts, OFFICIAL, "not the official files: ")
        return Prepared(spec=spec, subsets=subsets, about=f"LRA's retrieval pairs (AAN), {sizes}")

    def _build(self, tree: FileTree, folder: Path) -> None:
        common.write_files(tree, folder, FOLDER, FILES, partial(parse, max_length=self.max_length), n_sides=2)
