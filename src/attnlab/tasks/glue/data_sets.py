"""The data sets of GLUE, in official_files.yaml: columns, labels, locations and sizes, and the official metrics."""

from collections.abc import Mapping
from dataclasses import dataclass

from attnlab.data.files.official_files import OfficialFiles, read_table

HIGHEST_SCORE = 5.0


@dataclass(frozen=True, kw_only=True)
class DataSet(OfficialFiles):
    """One data set of GLUE.

    texts, label: names of the columns.
    metrics: the official metrics.
    classes: names of the classes by number; empty = a score from 0 to 5.
    spelled: files have the names of the classes, not their numbers.
    columns: columns of files without a header.
    layouts: file of each subset; the first complete one of several layouts is read.
    hub_texts: columns on the hub, if they differ from `texts`.
    broken:  the official files have lines with too few columns, which published loaders skip.
    on_hub:  whether the hub has it.
    """

    texts: tuple[str, ...] = ("sentence",)
    label: str = "label"
    metrics: tuple[str, ...] = ("accuracy",)
    classes: tuple[str, ...] = ()
    spelled: bool = False
    columns: tuple[str, ...] = ()
    layouts: tuple[Mapping[str, str], ...] = ({"train": "train.tsv", "test": "dev.tsv"},)
    hub_texts: tuple[str, ...] = ()
    broken: bool = False
    on_hub: bool = True


DATA_SETS = read_table(__file__, DataSet)
