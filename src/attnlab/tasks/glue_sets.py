"""The data sets of GLUE: columns and labels of their files, places, sizes, official metrics.

Columns, labels, addresses and sizes are those of the official files and of `nyu-mll/glue` on the Hugging Face hub.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from attnlab.data.fetch import OfficialFile
from attnlab.data.trees import Source

ADDRESS = "https://dl.fbaipublicfiles.com/glue/data/"
TOPS = ("GLUE", "glue", "glue_data")
HIGHEST_SCORE = 5.0


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set of GLUE.

    folder, archive: below the GLUE folder: the set's folder, and the official zip that holds it.
    texts, label: names of the columns.
    sizes:   published number of rows by subset.
    metrics: the official ones.
    classes: names of the classes by number; empty = a score from 0 to 5.
    spelled: files have the names of the classes, not their numbers.
    columns: of files without a header.
    files:   file of each subset; of several layouts the first that is complete is read.
    hub_texts: columns on the hub, where they differ from `texts`.
    offers:  where to get the files, where there is no archive.
    broken:  the official files have lines with too few columns, which published loaders leave out.
    on_hub:  it is one of the sets of the hub.
    """

    folder: str
    texts: tuple[str, ...]
    label: str
    sizes: Mapping[str, int]
    metrics: tuple[str, ...]
    classes: tuple[str, ...] = ()
    archive: str | None = None
    spelled: bool = False
    columns: tuple[str, ...] = ()
    files: tuple[Mapping[str, str], ...] = field(default=({"train": "train.tsv", "test": "dev.tsv"},))
    hub_texts: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    broken: bool = False
    on_hub: bool = True

    def source(self) -> Source:
        """Where the files may lie, and from where they come."""
        names = [self.folder, *([self.archive] if self.archive else [])]
        archive = OfficialFile(path=f"GLUE/{self.archive}", url=ADDRESS + self.archive) if self.archive else None
        places = tuple(f"{top}/{name}" for top in TOPS for name in names)
        return Source(what=f"GLUE's {self.folder}", places=places, archive=archive, offers=self.offers)


MSR = "https://dl.fbaipublicfiles.com/senteval/senteval_data/msr_paraphrase_"
SENTENCES = "https://github.com/clairett/pytorch-sentiment-classification (data/SST2; put `sentence<tab>label` on top)"
PAIR = ("sentence1", "sentence2")
POLARITY = ("negative", "positive")
ENTAILMENT = ("entailment", "not_entailment")

DATA_SETS = {
    "cola": DataSet(
        folder="CoLA",
        archive="CoLA.zip",
        texts=("sentence",),
        label="label",
        columns=("source", "label", "mark", "sentence"),
        classes=("unacceptable", "acceptable"),
        sizes={"train": 8551, "test": 1043},
        metrics=("matthews_correlation",),
    ),
    "sst2": DataSet(
        folder="SST-2",
        archive="SST-2.zip",
        texts=("sentence",),
        label="label",
        classes=POLARITY,
        sizes={"train": 67349, "test": 872},
        metrics=("accuracy",),
    ),
    "sst2_sentences": DataSet(
        folder="SST-2-sentences",
        texts=("sentence",),
        label="label",
        classes=POLARITY,
        sizes={"train": 6920, "test": 872},
        metrics=("accuracy",),
        offers=(SENTENCES,),
        on_hub=False,
    ),
    "mrpc": DataSet(
        folder="MRPC",
        texts=("#1 String", "#2 String"),
        hub_texts=PAIR,
        label="Quality",
        classes=("not_equivalent", "equivalent"),
        sizes={"train": 3668, "test": 408},
        metrics=("f1", "accuracy"),
        files=(
            {"train": "train.tsv", "test": "dev.tsv"},
            {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        ),
        offers=(f"{MSR}train.txt and {MSR}test.txt",),
    ),
    "mnli": DataSet(
        folder="MNLI",
        archive="MNLI.zip",
        texts=PAIR,
        hub_texts=("premise", "hypothesis"),
        label="gold_label",
        classes=("entailment", "neutral", "contradiction"),
        spelled=True,
        sizes={"train": 392702, "test/matched": 9815, "test/mismatched": 9832},
        metrics=("accuracy",),
        files=({"train": "train.tsv", "test/matched": "dev_matched.tsv", "test/mismatched": "dev_mismatched.tsv"},),
    ),
    "qnli": DataSet(
        folder="QNLI",
        archive="QNLIv2.zip",
        texts=("question", "sentence"),
        label="label",
        classes=ENTAILMENT,
        spelled=True,
        sizes={"train": 104743, "test": 5463},
        metrics=("accuracy",),
    ),
    "qqp": DataSet(
        folder="QQP",
        archive="QQP-clean.zip",
        texts=("question1", "question2"),
        label="is_duplicate",
        classes=("not_duplicate", "duplicate"),
        sizes={"train": 363846, "test": 40430},
        metrics=("f1", "accuracy"),
        broken=True,
    ),
    "rte": DataSet(
        folder="RTE",
        archive="RTE.zip",
        texts=PAIR,
        label="label",
        classes=ENTAILMENT,
        spelled=True,
        sizes={"train": 2490, "test": 277},
        metrics=("accuracy",),
    ),
    "wnli": DataSet(
        folder="WNLI",
        archive="WNLI.zip",
        texts=PAIR,
        label="label",
        classes=("not_entailment", "entailment"),
        sizes={"train": 635, "test": 71},
        metrics=("accuracy",),
    ),
    "stsb": DataSet(
        folder="STS-B",
        archive="STS-B.zip",
        texts=PAIR,
        label="score",
        sizes={"train": 5749, "test": 1500},
        metrics=("pearson", "spearman"),
    ),
}
