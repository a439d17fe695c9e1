"""The data sets of GLUE: columns, labels, locations and sizes of their files, and the official metrics.

Columns, labels, addresses and sizes are from the official files and from `nyu-mll/glue` on the Hugging Face hub.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from attnlab.data.files.fetch import OfficialFile
from attnlab.data.files.file_tree import DataSource

ADDRESS = "https://dl.fbaipublicfiles.com/glue/data/"
TOPS = ("GLUE", "glue", "glue_data")
HIGHEST_SCORE = 5.0
GLUE_FILES = {"train": "train.tsv", "test": "dev.tsv"}


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """One data set of GLUE.

    folder:  its folder below the GLUE folder.
    archive: name, size and sha256 of its zip archive (github huggingface/datasets, datasets/glue/dataset_infos.json).
    sizes:   published number of rows by subset.
    texts, label: names of the columns.
    metrics: the official metrics.
    classes: names of the classes by number; empty = a score from 0 to 5.
    spelled: files have the names of the classes, not their numbers.
    columns: columns of files without a header.
    files:   file of each subset; the first complete one of several layouts is read.
    hub_texts: columns on the hub, if they differ from `texts`.
    offers:  addresses of the files without an archive.
    broken:  the official files have lines with too few columns, which published loaders skip.
    on_hub:  whether the hub has it.
    """

    folder: str
    sizes: Mapping[str, int]
    texts: tuple[str, ...] = ("sentence",)
    label: str = "label"
    metrics: tuple[str, ...] = ("accuracy",)
    classes: tuple[str, ...] = ()
    archive: tuple[str, int, str] | None = None
    spelled: bool = False
    columns: tuple[str, ...] = ()
    files: tuple[Mapping[str, str], ...] = (GLUE_FILES,)
    hub_texts: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    broken: bool = False
    on_hub: bool = True

    def source(self) -> DataSource:
        """Locations and addresses of the files."""
        names, archive = [self.folder], None
        if self.archive:
            name, size, sha256 = self.archive
            names.append(name)
            archive = OfficialFile(path=f"GLUE/{name}", url=ADDRESS + name, size=size, sha256=sha256)
        paths = tuple(f"{top}/{name}" for top in TOPS for name in names)
        return DataSource(what=f"GLUE's {self.folder}", paths=paths, archive=archive, offers=self.offers)


MSR = "https://dl.fbaipublicfiles.com/senteval/senteval_data/msr_paraphrase_"
SENTENCES = "https://github.com/clairett/pytorch-sentiment-classification (data/SST2; put `sentence<tab>label` on top)"
PAIR = ("sentence1", "sentence2")
POLARITY = ("negative", "positive")
ENTAILMENT = ("entailment", "not_entailment")

DATA_SETS = {
    "cola": DataSet(
        folder="CoLA",
        archive=("CoLA.zip", 376971, "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"),
        columns=("source", "label", "mark", "sentence"),
        classes=("unacceptable", "acceptable"),
        sizes={"train": 8551, "test": 1043},
        metrics=("matthews_correlation",),
    ),
    "sst2": DataSet(
        folder="SST-2",
        archive=("SST-2.zip", 7439277, "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
        classes=POLARITY,
        sizes={"train": 67349, "test": 872},
    ),
    "sst2_sentences": DataSet(
        folder="SST-2-sentences",
        classes=POLARITY,
        sizes={"train": 6920, "test": 872},
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
            GLUE_FILES,
            {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        ),
        offers=(f"{MSR}train.txt and {MSR}test.txt",),
    ),
    "mnli": DataSet(
        folder="MNLI",
        archive=("MNLI.zip", 312783507, "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"),
        texts=PAIR,
        hub_texts=("premise", "hypothesis"),
        label="gold_label",
        classes=("entailment", "neutral", "contradiction"),
        spelled=True,
        sizes={"train": 392702, "test/matched": 9815, "test/mismatched": 9832},
        files=({"train": "train.tsv", "test/matched": "dev_matched.tsv", "test/mismatched": "dev_mismatched.tsv"},),
    ),
    "qnli": DataSet(
        folder="QNLI",
        archive=("QNLIv2.zip", 10627589, "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5"),
        texts=("question", "sentence"),
        classes=ENTAILMENT,
        spelled=True,
        sizes={"train": 104743, "test": 5463},
    ),
    "qqp": DataSet(
        folder="QQP",
        archive=("QQP-clean.zip", 41696084, "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"),
        texts=("question1", "question2"),
        label="is_duplicate",
        classes=("not_duplicate", "duplicate"),
        sizes={"train": 363846, "test": 40430},
        metrics=("f1", "accuracy"),
        broken=True,
    ),
    "rte": DataSet(
        folder="RTE",
        archive=("RTE.zip", 697150, "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),
        texts=PAIR,
        classes=ENTAILMENT,
        spelled=True,
        sizes={"train": 2490, "test": 277},
    ),
    "wnli": DataSet(
        folder="WNLI",
        archive=("WNLI.zip", 28999, "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46"),
        texts=PAIR,
        classes=("not_entailment", "entailment"),
        sizes={"train": 635, "test": 71},
    ),
    "stsb": DataSet(
        folder="STS-B",
        archive=("STS-B.zip", 802872, "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85"),
        texts=PAIR,
        label="score",
        sizes={"train": 5749, "test": 1500},
        metrics=("pearson", "spearman"),
    ),
}
