"""The data sets of GLUE: columns and labels of their files, places, sizes, official metrics.

Columns, labels, addresses and sizes are those of the official files and of `nyu-mll/glue` on the Hugging Face hub.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from attnlab.data.files.archive import Source
from attnlab.data.files.fetch import OfficialFile

ADDRESS = "https://dl.fbaipublicfiles.com/glue/data/"
TOPS = ("GLUE", "glue", "glue_data")
HIGHEST_SCORE = 5.0


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set of GLUE.

    folder, archive: below the GLUE folder: the set's folder, and the official zip that holds it.
    size, sha256: of the archive (github huggingface/datasets, datasets/glue/dataset_infos.json).
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
    size: int | None = None
    sha256: str | None = None
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
        archive = None
        if self.archive:
            path, url = f"GLUE/{self.archive}", ADDRESS + self.archive
            archive = OfficialFile(path=path, url=url, size=self.size, sha256=self.sha256)
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
        size=376971,
        sha256="f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff",
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
        size=7439277,
        sha256="d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
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
        size=312783507,
        sha256="e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
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
        size=10627589,
        sha256="e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5",
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
        size=41696084,
        sha256="40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0",
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
        size=697150,
        sha256="6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
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
        size=28999,
        sha256="ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46",
        texts=PAIR,
        label="label",
        classes=("not_entailment", "entailment"),
        sizes={"train": 635, "test": 71},
        metrics=("accuracy",),
    ),
    "stsb": DataSet(
        folder="STS-B",
        archive="STS-B.zip",
        size=802872,
        sha256="e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85",
        texts=PAIR,
        label="score",
        sizes={"train": 5749, "test": 1500},
        metrics=("pearson", "spearman"),
    ),
}
