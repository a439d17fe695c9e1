"""GLUE: official layouts, equal rows from the hub, framing, tokens, damaged files."""

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.official_layout_converters.glue import write_layout
from support.real_data import real_data
from support.unreachable_addresses import unreachable

from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.vocabulary import BytePair
from attnlab.tasks.base import Prepared
from attnlab.tasks.glue import data_sets
from attnlab.tasks.glue import task as glue
from attnlab.tasks.glue.task import Glue, cut, framed

# header and line of the official files; {0}, {1} texts, {2} label
PLAIN = ("index\tsentence1\tsentence2\tlabel", "7\t{0}\t{1}\t{2}")
PARSED = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
LAYOUT = {
    "cola": ("CoLA", "", "gj04\t{2}\t*\t{0}"),
    "sst2": ("SST-2", "sentence\tlabel", "{0}\t{2}"),
    "sst2_sentences": ("SST-2-sentences", "sentence\tlabel", "{0}\t{2}"),
    "mrpc": ("MRPC", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", "{2}\t12\t13\t{0}\t{1}"),
    "qqp": ("QQP", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "4\t5\t6\t{0}\t{1}\t{2}"),
    "qnli": ("QNLI", "index\tquestion\tsentence\tlabel", "7\t{0}\t{1}\t{2}"),
    "rte": ("RTE", *PLAIN),
    "wnli": ("WNLI", *PLAIN),
    "stsb": (
        "STS-B",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "0\tmain-captions\tMSRvid\t2012test\t0000\tnone\tnone\t{0}\t{1}\t{2}",
    ),
    "mnli": (
        "MNLI",
        f"index\tpromptID\tpairID\tgenre\t{PARSED}\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t31193\t31193n\tslate\t( a )\t( b )\t(ROOT a)\t(ROOT b)\t{0}\t{1}\tneutral\t{2}",
    ),
}
DEV_MNLI = (
    f"index\tpromptID\tpairID\tgenre\t{PARSED}\tsentence1\tsentence2\t" + "\t".join(f"label{n}" for n in range(1, 6))
) + "\tgold_label"
# the labels as files have them, in the order of their numbers on the hub
LABELS = {
    "mnli": ("entailment", "neutral", "contradiction"),
    "qnli": ("entailment", "not_entailment"),
    "rte": ("entailment", "not_entailment"),
    "stsb": ("0.000", "3.800", "5.000"),
}
PAIR = ("sentence1", "sentence2")
HUB_TEXTS = {"cola": ["sentence"], "sst2": ["sentence"], "sst2_sentences": ["sentence"]}
HUB_TEXTS |= {"mnli": ["premise", "hypothesis"], "qnli": ["question", "sentence"], "qqp": ["question1", "question2"]}
SINGLE = ("cola", "sst2", "sst2_sentences")
TEXTS = [
    ('He said "no', "then left."),
    ("A man's playing the “cello”.", ""),
    ("two  blanks ", "Él comió."),
    ("walk", "walks"),
]
Files = dict[str, list[tuple[str, str, str]]]


def files_of(name: str) -> Files:
    """Rows of a small data set by the name of its file, label as written."""
    labels = LABELS.get(name, ("0", "1"))
    parts = ["train", "dev_matched", "dev_mismatched"] if name == "mnli" else ["train", "dev"]
    numbered = {part: list(enumerate(TEXTS[n:] + TEXTS[:n])) for n, part in enumerate(parts)}
    return {f"{part}.tsv": [(*texts, labels[i % len(labels)]) for i, texts in rows] for part, rows in numbered.items()}


def write(name: str, top: Path, files: Files | None = None) -> Path:
    """A small data set in the official layout below `top`; its folder."""
    folder, header, line = LAYOUT[name]
    (top / folder).mkdir(parents=True)
    for file, rows in (files or files_of(name)).items():
        dev = name == "mnli" and file != "train.tsv"
        lines = [DEV_MNLI if dev else header] if header else []
        lines += [(line.replace("neutral", "\t".join(["neutral"] * 5)) if dev else line).format(*row) for row in rows]
        (top / folder / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return top / folder


def folders_of(tmp_path: Path) -> Folders:
    return Folders(data=tmp_path / "data", cache=tmp_path / "cache")


def shown(task: Glue, prepared: Prepared) -> dict[str, list[str]]:
    return {
        subset: [task.example(prepared, subset, number) for number in range(len(part))]
        for subset, part in prepared.subsets.items()
    }


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Files]:
    """A hub whose data sets are the rows put in here by name."""
    datasets = pytest.importorskip("datasets")
    there: dict[str, Files] = {}

    def load_dataset(path: str, name: str, revision: str) -> dict[str, object]:
        assert (path, revision) == ("nyu-mll/glue", "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c")
        labels = LABELS.get(name, ("0", "1"))
        splits = {}
        for file, rows in there[name].items():
            number = np.float32 if name == "stsb" else labels.index
            columns = {column: [row[i] for row in rows] for i, column in enumerate(HUB_TEXTS.get(name, PAIR))}
            columns |= {"label": [number(row[2]) for row in rows], "idx": list(range(len(rows)))}
            split = file.removesuffix(".tsv").replace("dev", "validation")
            splits[split] = datasets.Dataset.from_dict(columns)
        return datasets.DatasetDict(splits)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return there


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, data_set in data_sets.DATA_SETS.items():
        monkeypatch.setitem(data_sets.DATA_SETS, name, unreachable(data_set))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_the_table_and_the_options_name_the_same_sets() -> None:
    options = Glue.__init__.__annotations__["dataset"].__args__
    assert set(options) == set(data_sets.DATA_SETS) == set(LAYOUT)


@pytest.mark.parametrize("name", LAYOUT)
def test_the_official_layout_is_read(name: str, tmp_path: Path) -> None:
    write(name, tmp_path / "data/GLUE")
    task = Glue(dataset=name, vocabulary_size=300)
    prepared = task.prepare(folders_of(tmp_path))
    tests = ["test/matched", "test/mismatched"] if name == "mnli" else ["test"]
    assert list(prepared.subsets) == ["train", *tests]
    classes = data_sets.DATA_SETS[name].classes
    for (file, rows), (subset, result) in zip(files_of(name).items(), shown(task, prepared).items(), strict=True):
        labels = LABELS.get(name, ("0", "1"))
        for row, example in zip(rows, result, strict=True):
            texts, label = example.split("\n")[:-1], example.split("\n")[-1]
            names = HUB_TEXTS.get(name, PAIR)
            assert texts == [f"{column}: {text}" for column, text in zip(names, row, strict=False)], (file, subset)
            right = f"{float(row[2]):g}" if name == "stsb" else classes[labels.index(row[2])]
            assert label == f"label: {right}"
    spec = prepared.spec
    assert (spec.kind, spec.modality) == ("regression" if name == "stsb" else "classification", "tokens")
    assert spec.n_classes == {"mnli": 3, "stsb": 1}.get(name, 2)
    assert spec.max_input_length == 512
    assert spec.input_vocabulary <= 300
    answers = prepared.subsets["train"].batch(np.array([1])).answers
    assert answers.is_floating_point() == (name == "stsb")


@pytest.mark.parametrize("name", [name for name in LAYOUT if name != "sst2_sentences"])
def test_the_hub_gives_the_same_rows(name: str, tmp_path: Path, hub: dict[str, Files]) -> None:
    hub[name] = files_of(name)
    write(name, tmp_path / "data/GLUE")
    item = Glue(dataset=name, source="files").prepare(folders_of(tmp_path))
    other = Glue(dataset=name, source="hub").prepare(folders_of(tmp_path))
    assert item.data_hash() == other.data_hash()
    assert len(list((tmp_path / "cache").glob("*/manifest.json"))) == 2


def test_the_official_metrics() -> None:
    metrics = {name: data_set.metrics for name, data_set in data_sets.DATA_SETS.items()}
    assert metrics.pop("cola") == ("matthews_correlation",)
    assert metrics.pop("stsb") == ("pearson", "spearman")
    assert metrics.pop("mrpc") == metrics.pop("qqp") == ("f1", "accuracy")
    assert set(metrics.values()) == {("accuracy",)}


def test_files_come_before_the_hub(tmp_path: Path, hub: dict[str, Files]) -> None:
    hub["rte"] = {file: rows[:1] for file, rows in files_of("rte").items()}
    assert len(Glue(dataset="rte").prepare(folders_of(tmp_path)).subsets["train"]) == 1
    write("rte", tmp_path / "data/GLUE")
    assert len(Glue(dataset="rte").prepare(folders_of(tmp_path)).subsets["train"]) == 4


def test_the_hub_is_asked_once(tmp_path: Path, hub: dict[str, Files]) -> None:
    hub["wnli"] = files_of("wnli")
    first = Glue(dataset="wnli").prepare(folders_of(tmp_path))
    hub.clear()
    assert Glue(dataset="wnli").prepare(folders_of(tmp_path)).data_hash() == first.data_hash()


@pytest.mark.parametrize("location", ["GLUE/QQP", "glue/QQP", "glue_data/QQP", "GLUE/QQP-clean.zip", "gz"])
def test_files_are_read_where_they_lie(tmp_path: Path, location: str) -> None:
    folder = write("qqp", tmp_path / "made")
    target = tmp_path / "data" / ("GLUE/QQP" if location == "gz" else location)
    target.parent.mkdir(parents=True)
    if location.endswith(".zip"):
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("__MACOSX/QQP/._train.tsv", "junk")
            for file in folder.iterdir():
                archive.write(file, f"QQP/{file.name}")
    else:
        folder.rename(target)
        for file in list(target.iterdir()) if location == "gz" else []:
            file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
    prepared = Glue(dataset="qqp", source="files").prepare(folders_of(tmp_path))
    assert [len(part) for part in prepared.subsets.values()] == [4, 4]


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 40))
def test_the_longer_text_loses_first(first: int, second: int, longest: int) -> None:
    item, other = first, second
    while item + other > longest:
        item, other = (item - 1, other) if item > other else (item, other - 1)
    assert cut(first, second, longest) == (item, other)


def test_sentences_are_framed_and_cut() -> None:
    a, b = np.arange(10, 16, dtype=np.int32), np.arange(20, 23, dtype=np.int32)
    assert framed([a], 512).tolist() == [2, 10, 11, 12, 13, 14, 15, 1]
    assert framed([a], 8).tolist() == framed([a], 512).tolist()
    assert framed([a], 7).tolist() == [2, 10, 11, 12, 13, 14, 1]
    assert framed([a, b], 512).tolist() == [2, 10, 11, 12, 13, 14, 15, 1, 1, 20, 21, 22, 1]
    assert framed([a, b], 10).tolist() == [2, 10, 11, 12, 1, 1, 20, 21, 22, 1]
    assert framed([a, a[:0]], 512).tolist() == [2, 10, 11, 12, 13, 14, 15, 1, 1, 1]


@pytest.mark.parametrize("name", ["cola", "mrpc"])
def test_long_texts_are_cut(name: str, tmp_path: Path) -> None:
    write(name, tmp_path / "data/GLUE", {file: [("word " * 50, "x", "1")] for file in files_of(name)})
    task = Glue(dataset=name, vocabulary_size=260, max_length=40)
    prepared = task.prepare(folders_of(tmp_path))
    part = prepared.subsets["train"]
    framing = 2 if name == "cola" else 4
    assert part.inputs[0].shape == (40,) and part.lengths.tolist() == [40 - framing]
    assert prepared.spec.max_input_length == 40
    # one token a character; of a pair one is left to the other text
    first = f"sentence: {'word ' * 7}wor\n" if name == "cola" else f"sentence1: {'word ' * 7}\n"
    assert task.example(prepared, "train", 0).startswith(first)
    assert part.length_bins[0] <= part.lengths.min()


def test_byte_pairs_come_from_training_sentences_alone(tmp_path: Path) -> None:
    rows = [("banana banana banana", "", "1")]
    other = [("zucchini zucchini zucchini", "", "0")]
    write("cola", tmp_path / "data/GLUE", {"train.tsv": rows, "dev.tsv": other})
    prepared = Glue(vocabulary_size=8192).prepare(folders_of(tmp_path))
    tokens = BytePair.load(prepared.keep["tokenizer.json"])
    assert len(tokens) == prepared.spec.input_vocabulary
    banana, zucchini = tokens.encode(["banana", "zucchini"])
    assert len(banana) == 1 and len(zucchini) == 8


def test_tokens_of_another_run(tmp_path: Path) -> None:
    write("cola", tmp_path / "data/GLUE")
    run = tmp_path / "run"
    run.mkdir()
    inputs = BytePair.train(["He said no", "He said so", "two blanks"], 275)
    inputs.save(run / "tokenizer.json")
    task = Glue(from_run=str(run))
    prepared = task.prepare(folders_of(tmp_path))
    assert prepared.spec.input_vocabulary == len(inputs)
    assert prepared.keep["tokenizer.json"].read_bytes() == (run / "tokenizer.json").read_bytes()
    text = TEXTS[0][0]
    assert prepared.subsets["train"].inputs[0].tolist() == [2, *inputs.encode([text])[0].tolist(), 1]
    # another tokenizer under the same name is not answered from the cache
    BytePair.train(["zebra zebra"], 262).save(run / "tokenizer.json")
    assert task.prepare(folders_of(tmp_path)).spec.input_vocabulary != len(inputs)


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_run_without_tokens_is_named(tmp_path: Path, content: str | None) -> None:
    write("cola", tmp_path / "data/GLUE")
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(DataError, match=r"^from_run=.*kept its byte pairs.*tokenizer\.json"):
        Glue(from_run=str(tmp_path)).prepare(folders_of(tmp_path))


def test_the_same_files_give_the_same_data(tmp_path: Path) -> None:
    write("mnli", tmp_path / "data/GLUE")
    caches = [Folders(data=tmp_path / "data", cache=tmp_path / name) for name in ("one", "other")]
    item, other = (Glue(dataset="mnli").prepare(folders) for folders in caches)
    assert item.data_hash() == other.data_hash()
    assert item.keep["tokenizer.json"].read_bytes() == other.keep["tokenizer.json"].read_bytes()


def test_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    folder = write("cola", tmp_path / "data/GLUE")
    before = Glue().prepare(folders_of(tmp_path))
    lines = (folder / "train.tsv").read_text().splitlines()
    (folder / "train.tsv").write_text("\n".join([lines[0].replace("\t0\t", "\t1\t"), *lines[1:]]) + "\n")
    assert Glue().prepare(folders_of(tmp_path)).data_hash() != before.data_hash()


def test_about_tells_partial_files_from_whole_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("rte", tmp_path / "data/GLUE")
    about = Glue(dataset="rte").prepare(folders_of(tmp_path)).about
    assert "train 4, test 4" in about and "the official one has train 2,490, test 277" in about
    monkeypatch.setitem(data_sets.DATA_SETS["rte"].sizes, "train", 4)
    monkeypatch.setitem(data_sets.DATA_SETS["rte"].sizes, "test", 4)
    about = Glue(dataset="rte").prepare(folders_of(tmp_path)).about
    assert about.endswith("test is the official development set, for GLUE's test labels are not public.")


def test_mrpc_prefers_the_division_of_glue(tmp_path: Path) -> None:
    folder = write("mrpc", tmp_path / "data/GLUE")
    for old, new in (("train.tsv", "msr_paraphrase_train.txt"), ("dev.tsv", "msr_paraphrase_test.txt")):
        lines = (folder / old).read_text(encoding="utf-8").splitlines()
        (folder / new).write_text("\n".join(lines[:2]) + "\n", encoding="utf-8")
    task = Glue(dataset="mrpc")
    assert len(task.prepare(folders_of(tmp_path)).subsets["train"]) == 4
    (folder / "dev.tsv").unlink()
    prepared = task.prepare(folders_of(tmp_path))
    assert len(prepared.subsets["train"]) == 1
    assert "the original corpus and its test set" in prepared.about


def edited(number: int, line: str | None) -> Callable[[list[str]], list[str]]:
    return lambda lines: [*lines[: number - 1], *([] if line is None else [line]), *lines[number:]]


@pytest.mark.parametrize(
    ("name", "number", "line", "complaint"),
    [
        ("cola", 2, "gj04\t1\tNo fourth column.", "3 columns where 4 are expected"),
        ("cola", 2, "", "1 columns where 4 are expected"),
        ("cola", 3, "gj04\t2\t\tA sentence.", "label '2'; expected one of 0, 1"),
        ("cola", 1, "sentence\tlabel", "2 columns where 4 are expected"),
        ("sst2", 1, "sentence\tlabels", "a header with 'label' expected, found 'sentence\\tlabels'"),
        ("sst2", 4, "a film\tpositive", "label 'positive'; expected one of 0, 1"),
        ("mnli", 2, "\t".join("0123456789") + "\t-\tentailmant", "label 'entailmant'; expected one of entailment"),
        ("mnli", 2, "\t".join("0123456789") + "\t-\tentailmant", "nearest: entailment"),
        ("rte", 2, "0\ta\tb\t0", "label '0'; expected one of entailment, not_entailment"),
        ("stsb", 3, "\t".join("012345678") + "\t5.1", "score '5.1'; expected a number from 0 to 5"),
        ("stsb", 3, "\t".join("012345678") + "\tnan", "score 'nan'"),
        ("stsb", 3, "\t".join("012345678") + "\thigh", "score 'high'"),
        ("qqp", 2, "\tWas Muhammad real?\t0", "other than 6 columns, as on 1 lines in all"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, name: str, number: int, line: str, complaint: str) -> None:
    file = write(name, tmp_path / "data/GLUE") / "train.tsv"
    file.write_text("\n".join(edited(number, line)(file.read_text(encoding="utf-8").splitlines())) + "\n")
    with pytest.raises(DataError) as error:
        Glue(dataset=name).prepare(folders_of(tmp_path))
    assert str(error.value).startswith(f"{file}, line {number}: ")
    assert complaint in str(error.value)
    assert not list((tmp_path / "cache").glob("*/manifest.json"))


def test_broken_lines_of_qqp_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = files_of("qqp")["train.tsv"] * 60
    file = write("qqp", tmp_path / "data/GLUE", {"train.tsv": rows, "dev.tsv": rows[:4]}) / "train.tsv"
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([*lines[:99], "\ttwo columns", *lines[99:]]) + "\n")
    prepared = Glue(dataset="qqp").prepare(folders_of(tmp_path))
    assert len(prepared.subsets["train"]) == len(rows)
    assert "train.tsv: 1 lines with other than 6 columns are left out: 100" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "index\tsentence1\tsentence2\tlabel\n"])
def test_an_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    file = write("rte", tmp_path / "data/GLUE") / "dev.tsv"
    file.write_text(content)
    with pytest.raises(DataError, match="no rows" if content else "line 1: a header with"):
        Glue(dataset="rte").prepare(folders_of(tmp_path))


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    file = write("cola", tmp_path / "data/GLUE") / "dev.tsv"
    file.write_bytes(b"gj04\t1\t\tFine.\ngj04\t1\t\tNot \xff fine.\n")
    with pytest.raises(DataError, match=r"dev.tsv, line 2: not utf-8"):
        Glue().prepare(folders_of(tmp_path))


def test_a_compressed_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    file = write("cola", tmp_path / "data/GLUE") / "train.tsv"
    whole = gzip.compress(file.read_bytes() * 500)
    file.unlink()
    file.with_name("train.tsv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"train\.tsv\.gz.*cut short"):
        Glue().prepare(folders_of(tmp_path))
    assert not list((tmp_path / "cache").glob("*/manifest.json"))


def test_a_folder_without_the_files_is_refused(tmp_path: Path) -> None:
    (write("cola", tmp_path / "data/GLUE") / "dev.tsv").unlink()
    with pytest.raises(DataError, match=r"CoLA: train.tsv, dev.tsv expected .*, found train.tsv of these"):
        Glue().prepare(folders_of(tmp_path))


@pytest.mark.usefixtures("no_network")
def test_missing_files_say_from_where_they_come(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        Glue(source="files").prepare(folders_of(tmp_path))
    for part in ("http://127.0.0.1:9/CoLA.zip", str(tmp_path / "data/GLUE/CoLA.zip")):
        assert part in str(error.value)
    with pytest.raises(DataError, match=r"msr_paraphrase_train.txt"):
        Glue(dataset="mrpc", source="files").prepare(folders_of(tmp_path))


def test_a_hub_out_of_reach_says_where_the_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")

    def refuse(path: str, name: str, revision: str) -> None:
        raise ConnectionError(f"Couldn't reach '{path}' on the Hub\nmore")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(DataError) as error:
        Glue(dataset="qnli").prepare(folders_of(tmp_path))
    url = data_sets.DATA_SETS["qnli"].archive.url
    for part in ("ConnectionError: Couldn't reach 'nyu-mll/glue'", url, "data/GLUE/QNLI"):
        assert part in str(error.value)
    assert "more" not in str(error.value)
    write("qnli", tmp_path / "data/GLUE")
    with pytest.raises(DataError, match=r"task\.source=files reads them"):
        Glue(dataset="qnli", source="hub").prepare(folders_of(tmp_path))


def test_what_the_hub_has_not_or_has_wrong_is_refused(tmp_path: Path, hub: dict[str, Files]) -> None:
    with pytest.raises(DataError, match=r"sst2_sentences is not on the Hugging Face hub.*clairett"):
        Glue(dataset="sst2_sentences").prepare(folders_of(tmp_path))
    hub["stsb"] = {"train.tsv": [("a", "b", "-1")], "dev.tsv": [("a", "b", "1")]}
    with pytest.raises(DataError, match=r"\(stsb\), train, row 1: label -1"):
        Glue(dataset="stsb").prepare(folders_of(tmp_path))


def test_the_yaml_has_every_option() -> None:
    file = Path(__file__).parents[2] / "conf/task/glue.yaml"
    written = yaml.safe_load(file.read_text())
    options = set(Glue.__init__.__annotations__) - {"return"}
    assert set(written["task"]) == {"_target_", "name", "label"} | options
    shared = yaml.safe_load((file.parents[1] / "config.yaml").read_text())
    assert written["task"]["from_run"] == "${from_run}" and shared["from_run"] is None
    # published: three epochs, whatever the set
    assert (written["train"]["max_steps"], written["train"]["max_epochs"]) == (None, 3)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    folders = folders_of(tmp_path_factory.mktemp("glue"))
    folders.data.mkdir()
    write_layout(real_data("glue/CoLA/train.tsv.gz").parents[2], folders.data)
    return folders


@pytest.mark.parametrize(
    ("name", "rows", "ones", "note"),
    [
        ("cola", (8551, 1043), (6023, 719), "test is the official development set"),
        pytest.param("sst2_sentences", (6920, 872), (3610, 444), "not the 67,349 phrases", marks=pytest.mark.slow),
        pytest.param(
            "mrpc", (4076, 1725), (2753, 1147), "not GLUE's division into 3,668 and 408 pairs", marks=pytest.mark.slow
        ),
    ],
)
def test_the_real_files(real: Folders, name: str, rows: tuple, ones: tuple, note: str) -> None:
    task = Glue(dataset=name)
    prepared = task.prepare(real)
    parts = [prepared.subsets[subset] for subset in ("train", "test")]
    assert tuple(map(len, parts)) == rows
    assert tuple(int(part.answers.sum()) for part in parts) == ones
    assert note in prepared.about and "partial" not in prepared.about
    assert max(part.inputs.lengths.max() for part in parts) < 130
    if name == "mrpc":
        text = task.example(prepared, "train", 0).splitlines()
        assert text[0].startswith('sentence1: Amrozi accused his brother, whom he called "the witness", of')
        assert text[2] == "label: equivalent"


def test_the_docstring_shows_a_real_example(real: Folders) -> None:
    task = Glue()
    example = task.example(task.prepare(real), "train", 0)
    assert "\n".join(f"    {line}" for line in example.splitlines()) in glue.__doc__
    with gzip.open(real.data / "GLUE/CoLA/train.tsv.gz", "rt") as file:
        line = file.readline().rstrip("\n")
    assert f"`{line}`".replace("\t", "<tab>") in glue.__doc__


def test_the_shared_folder_is_read_as_it_is(tmp_path: Path) -> None:
    folders = Folders(data=real_data("glue/CoLA/dev.tsv.gz").parents[2], cache=tmp_path)
    prepared = Glue(vocabulary_size=300).prepare(folders)
    assert len(prepared.subsets["test"]) == 1043
    kept = json.loads(prepared.keep["tokenizer.json"].read_text())
    assert len(kept["model"]["vocab"]) + 4 == prepared.spec.input_vocabulary
