"""WikiText: reading, tokens and words, blocks, both sources, damaged files."""

import gzip
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from support.official_layout_converters.wikitext import write_layout
from support.real_data import real_data
from support.unreachable_addresses import unreachable

from attnlab.data.files import hugging_face
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.text_blocks import MaskedBlocks, TextBlocks
from attnlab.data.vocabulary import BytePair
from attnlab.tasks.base import Prepared
from attnlab.tasks.wikitext import wikitext2, wikitext103, wikitext103_masked
from attnlab.tasks.wikitext.files import CORPORA, HubText
from attnlab.tasks.wikitext.wikitext2 import Wikitext2
from attnlab.tasks.wikitext.wikitext103 import Wikitext103
from attnlab.tasks.wikitext.wikitext103_masked import Wikitext103Masked

PARTS = {
    "train": " \n = Cats = \n \n The cat sat on the <unk> . \n The cat @-@ house , é 雪 . \n \n",
    "valid": " \n = Dogs = \n The cat house \n",
    "test": " \n = Hats = \n The hat of\u3000the cat . \n",
}
WORDS = 24
"""words of the training part with its line ends"""


def write(data: Path, name: str = "wikitext-103", **parts: str | bytes) -> Path:
    """The files of a corpus in the official layout below `data`, some with other content than `PARTS`."""
    folder = data / name
    folder.mkdir(parents=True, exist_ok=True)
    ending = CORPORA[name].ending
    for part, text in (PARTS | parts).items():
        content = text.encode() if isinstance(text, str) else text
        (folder / f"wiki.{part}.{ending}").write_bytes(content)
    return folder


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """Folders without data, and no network."""
    for name, corpus in CORPORA.items():
        monkeypatch.setitem(CORPORA, name, unreachable(corpus))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return Folders(data=tmp_path / "data", cache=tmp_path / "cache")


def streams(prepared: Prepared) -> dict[str, list[int]]:
    return {name: subset.tokens.tolist() for name, subset in prepared.subsets.items()}


def test_words_are_numbered_by_how_often_they_are_there(folders: Folders) -> None:
    write(folders.data)
    prepared = Wikitext103(length=8).prepare(folders)
    words = prepared.keep["words.txt"].read_text(encoding="utf-8").split("\n")
    assert words[:6] == [".", "=", "The", "cat", ",", "<unk>"]
    assert sorted(words) == sorted(set(PARTS["train"].split()))
    number = {word: i for i, word in enumerate(words, start=3)}
    end, unknown = 1, number["<unk>"]
    expected = [end, number["="], unknown, number["="], end, number["The"], number["cat"], number["house"], end]
    actual = streams(prepared)
    assert actual["val"] == expected
    # ideographic blanks part words as in fairseq; "of" and "Hats" are not in the training text
    assert actual["test"][5:] == [number["The"], unknown, unknown, number["the"], number["cat"], number["."], end]
    assert len(actual["train"]) == WORDS
    spec = prepared.spec
    assert spec.input_vocabulary == spec.output_vocabulary == 3 + len(words)
    assert (spec.kind, spec.end_id, spec.pad_id, spec.n_special) == ("language_model", 1, 0, 3)
    assert spec.metrics == ("word_perplexity", "token_perplexity")
    for part in ("train 6 lines, 24 words", "val 3 lines, 9 words", "1 words outside", "3 words outside"):
        assert part in prepared.about
    assert prepared.about.count("NOT the published") == 3


def test_a_text_without_rare_words_has_a_place_for_them(folders: Folders) -> None:
    write(folders.data, train=" a b \n")
    prepared = Wikitext103().prepare(folders)
    assert prepared.keep["words.txt"].read_text().split("\n") == ["a", "b", "<unk>"]


def test_byte_pairs_count_the_same_words(folders: Folders) -> None:
    write(folders.data)
    task = Wikitext103(tokens="byte_pairs", vocabulary_size=265, length=5)
    prepared = task.prepare(folders)
    tokens = BytePair.load(prepared.keep["tokenizer.json"])
    assert prepared.spec.input_vocabulary == len(tokens) == 265
    for name, part in (("train", "train"), ("val", "valid"), ("test", "test")):
        examples = prepared.subsets[name]
        batch = examples.batch(np.arange(len(examples)))
        lines = PARTS[part].splitlines()
        spaced = ["".join(f" {word}" for word in line.split()) for line in lines]
        expected = [i for ids in tokens.encode(spaced) for i in (*ids, 1)]
        assert examples.tokens.tolist() == expected
        assert batch.words.sum() == sum(len(line.split()) + 1 for line in lines)
        assert batch.scored.sum() == len(expected)
    assert "outside the vocabulary" not in prepared.about


def test_blocks_have_the_lengths_asked_for(folders: Folders) -> None:
    write(folders.data)
    plain = Wikitext103(length=5).prepare(folders)
    assert plain.subsets["train"].lengths.tolist() == [5, 5, 5, 5, 4]
    assert plain.subsets["val"].lengths.tolist() == [5, 4]
    assert (plain.spec.max_input_length, plain.spec.max_output_length) == (5, 5)
    long = Wikitext103(length=5, eval_length=7, eval_context=2).prepare(folders)
    assert long.subsets["train"].batch(np.array([1])).inputs.shape == (1, 5)
    assert long.subsets["val"].lengths.tolist() == [7, 2]
    assert long.subsets["test"].batch(np.array([1])).lengths.tolist() == [2 + 5]
    assert long.spec.max_input_length == 9
    assert Wikitext103(length=5, eval_length=2).prepare(folders).spec.max_input_length == 5
    # blocks are cut from one prepared text
    assert len([path for path in folders.cache.iterdir() if path.is_dir()]) == 1


def test_masked_blocks_of_whole_lines(folders: Folders) -> None:
    write(folders.data, "wikitext-103-raw")
    task = Wikitext103Masked(vocabulary_size=260, length=40, eval_length=16, data_seed=3)
    prepared = task.prepare(folders)
    spec, train = prepared.spec, prepared.subsets["train"]
    assert (spec.kind, spec.mask_id, spec.n_special, spec.mask_share) == ("masked_language_model", 3, 4, 0.15)
    assert spec.metrics == ("masked_token_perplexity",)
    assert spec.max_input_length == 40 and spec.input_vocabulary == 260
    batch = train.batch(np.arange(len(train)))
    tokens = BytePair.load(prepared.keep["tokenizer.json"])
    texts = [tokens.decode(row[:length].tolist()) for row, length in zip(batch.targets, batch.lengths, strict=True)]
    # a line of 31 bytes and its end fill no block with the next one of 28
    assert texts == [" = Cats =", " The cat sat on the <unk> .", " The cat @-@ house , é 雪 ."]
    assert (batch.inputs == batch.targets).all() and (batch.scored == (batch.targets >= 4)).all()
    assert (batch.targets[:, 0] == BytePair.start_id).all()
    assert task.example(prepared, "train", 0).endswith("predicts 15% of them, hidden anew at every step")
    val = prepared.subsets["val"]
    assert val.batch(np.arange(len(val))).lengths.max() <= 16
    assert batch.words.sum() == 0


def test_what_is_hidden_depends_on_data_seed_alone(folders: Folders) -> None:
    write(folders.data, "wikitext-103-raw", valid=PARTS["valid"] * 9, test=PARTS["valid"] * 9)

    def read(**options: int) -> dict[str, list]:
        subsets = Wikitext103Masked(vocabulary_size=260, **options).prepare(folders).subsets
        return {name: subset.batch(np.arange(len(subset))).inputs.tolist() for name, subset in subsets.items()}

    first, again, other = read(), read(), read(data_seed=1)
    assert first == again
    assert first["train"] == other["train"]
    assert first["val"] != other["val"] and first["test"] != other["test"]
    # the same text in both, so only the subset's own draw differs
    assert first["val"] != first["test"]


def test_the_masked_task_reads_either_text(folders: Folders) -> None:
    write(folders.data, "wikitext-103-raw", valid=" raw \n")
    write(folders.data, "wikitext-103", valid=" tokens \n")
    for text in ("raw", "tokens"):
        prepared = Wikitext103Masked(text=text, vocabulary_size=260).prepare(folders)
        tokens = BytePair.load(prepared.keep["tokenizer.json"])
        assert tokens.decode(prepared.subsets["val"].tokens.tolist()) == f" {text}"


def test_a_given_tokenizer_is_used_and_kept(folders: Folders, tmp_path: Path) -> None:
    write(folders.data)
    inputs = BytePair.train(["house house house"], 265)
    inputs.save(tmp_path / "given.json")
    task = Wikitext103(tokens="byte_pairs", tokenizer=str(tmp_path / "given.json"))
    prepared = task.prepare(folders)
    assert prepared.spec.input_vocabulary == len(inputs)
    assert BytePair.load(prepared.keep["tokenizer.json"]).tokenizer.to_str() == inputs.tokenizer.to_str()
    assert prepared.subsets["val"].tokens[-2] == inputs.spellings["house"][-1]
    # another tokenizer at the same path is not answered from the cache
    BytePair.train(["x"], 260).save(tmp_path / "given.json")
    assert task.prepare(folders).spec.input_vocabulary == 260
    masked = Wikitext103Masked(text="tokens", tokenizer=str(tmp_path / "given.json")).prepare(folders)
    assert masked.spec.input_vocabulary == 260


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"tokenizer": "x.json"}, "task.tokenizer is for task.tokens=byte_pairs"),
        ({"tokenizer": "x.json", "tokens": "byte_pairs"}, "x.json: no tokenizer.json there"),
    ],
)
def test_a_tokenizer_that_cannot_be_used(folders: Folders, options: dict[str, str], complaint: str) -> None:
    write(folders.data)
    with pytest.raises(DataError, match=complaint):
        Wikitext103(**options).prepare(folders)


def zipped(folder: Path, to: Path, top: str) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{top}/{file.name}")


def test_the_text_is_found_where_it_lies(folders: Folders, tmp_path: Path) -> None:
    folder = write(tmp_path / "aside")
    expected = None
    for place_ in ("wikitext-103", "wikitext-103-v1.zip", "wikitext-103/wikitext-103-v1.zip", "gz"):
        shutil.rmtree(folders.data, ignore_errors=True)
        if place_ == "wikitext-103":
            shutil.copytree(folder, folders.data / place_)
        elif place_ == "gz":
            (folders.data / "wikitext-103").mkdir(parents=True)
            for file in folder.iterdir():
                to = folders.data / "wikitext-103" / f"{file.name}.gz"
                to.write_bytes(gzip.compress(file.read_bytes()))
        else:
            zipped(folder, folders.data / place_, "wikitext-103")
        prepared = Wikitext103(source="files").prepare(folders)
        expected = expected or streams(prepared)
        assert streams(prepared) == expected
    zipped(folder, folders.cache / "downloads/wikitext-103-v1.zip", "wikitext-103")
    shutil.rmtree(folders.data)
    assert streams(Wikitext103().prepare(folders)) == expected


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The package `datasets`, whose hub has the corpora as it publishes them: a row a line, blank ones empty."""
    datasets = pytest.importorskip("datasets")

    def load_dataset(name: str, configuration: str, revision: str) -> dict[str, object]:
        assert (name, revision) == ("Salesforce/wikitext", "b08601e04326c79dfdd32d625aee71d232d685c3")
        assert configuration.removesuffix("-v1") in CORPORA and configuration.endswith("-v1")
        rows = {
            part: [line if line.strip() else "" for line in text.splitlines(keepends=True)]
            for part, text in PARTS.items()
        }
        rows["validation"] = rows.pop("valid")
        return datasets.DatasetDict({part: datasets.Dataset.from_dict({"text": text}) for part, text in rows.items()})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return datasets


@pytest.mark.parametrize("make", [Wikitext103, Wikitext2, lambda **o: Wikitext103Masked(vocabulary_size=270, **o)])
def test_files_and_hub_give_the_same_tokens(folders: Folders, hub: ModuleType, make: Callable) -> None:
    for name in CORPORA:
        write(folders.data, name)
    files, other = make(source="files").prepare(folders), make(source="hub").prepare(folders)
    assert streams(files) == streams(other)
    assert files.data_hash() == other.data_hash()
    assert "plain files" in files.about and "Hugging Face Salesforce/wikitext at b08601e04326" in other.about
    # a few lines are not what was published, wherever they are from
    assert other.about.count("NOT the published") == files.about.count("NOT the published") == 3


@pytest.mark.parametrize(
    ("name", "part", "file"),
    [
        ("wikitext-2", "val", "wikitext-2/valid.txt.gz"),
        ("wikitext-2", "test", "wikitext-2/test.txt.gz"),
        ("wikitext-103", "val", "wikitext-103/valid.txt.gz"),
    ],
)
def test_the_hub_s_text_is_official_by_what_it_holds(
    folders: Folders, monkeypatch: pytest.MonkeyPatch, name: str, part: str, file: str
) -> None:
    datasets = pytest.importorskip("datasets")
    lines = [f"{line}\n" for line in gzip.decompress(real_data(file).read_bytes()).decode().split("\n")[:-1]]
    rows = [line if line.strip() else "" for line in lines]
    place_ = next(number for number, row in enumerate(rows) if " the " in row)
    changed = [*rows[:place_], rows[place_].replace(" the ", " teh ", 1), *rows[place_ + 1 :]]
    collected = []
    for text in (rows, changed, rows[:-1]):
        split = {"val": "validation"}.get(part, part)
        loaded = datasets.DatasetDict({split: datasets.Dataset.from_dict({"text": text})})
        monkeypatch.setattr(hugging_face, "load_from_hub", lambda *_, loaded=loaded: loaded)
        collected.append(HubText(CORPORA[name], folders).is_official(part))
    assert collected == [True, False, False]


def test_auto_prefers_files(folders: Folders, hub: ModuleType) -> None:
    assert "Hugging Face" in Wikitext103().prepare(folders).about
    write(folders.data)
    assert "plain files" in Wikitext103().prepare(folders).about


@pytest.mark.parametrize("source", ["auto", "hub"])
@pytest.mark.parametrize("error", [ConnectionError("Couldn't reach it"), ImportError("no datasets")])
def test_without_the_hub_it_says_what_to_get(
    folders: Folders, hub: ModuleType, monkeypatch: pytest.MonkeyPatch, source: str, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(hub, "load_dataset", fail)
    with pytest.raises(DataError) as failure:
        Wikitext103Masked(source=source).prepare(folders)
    for part in (
        str(error),
        "http://127.0.0.1:9/wikitext-103-raw-v1.zip (192.0 MB)",
        str(folders.data / "wikitext-103-raw-v1.zip"),
        str(folders.data / "wikitext-103-raw"),
    ):
        assert part in str(failure.value)
    assert not list(folders.cache.glob("*/*"))


def test_without_a_network_the_archive_is_named(folders: Folders) -> None:
    with pytest.raises(DataError) as error:
        Wikitext2(source="files").prepare(folders)
    for part in ("http://127.0.0.1:9/wikitext-2-v1.zip", "4.5 MB", str(folders.data / "wikitext-2-v1.zip")):
        assert part in str(error.value)


def test_a_missing_file_is_named(folders: Folders) -> None:
    folder = write(folders.data)
    (folder / "wiki.valid.tokens").unlink()
    with pytest.raises(DataError, match=r"lacks wiki\.valid\.tokens; there: wiki\.test\.tokens, wiki\.train\.tokens"):
        Wikitext103().prepare(folders)


def test_an_archive_of_something_else_is_refused(folders: Folders, tmp_path: Path) -> None:
    zipped(write(tmp_path / "aside", "wikitext-103-raw"), folders.data / "wikitext-103-v1.zip", "wikitext-103-raw")
    with pytest.raises(DataError, match=r"wikitext-103-v1\.zip lacks .*wiki\.train\.tokens.*; there: none of them"):
        Wikitext103().prepare(folders)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (" a b \n \xff \n".encode("latin-1"), r"wiki\.valid\.tokens, line 2: not utf-8"),
        (b"", r"wiki\.valid\.tokens holds no words"),
        (b" \n \n", r"wiki\.valid\.tokens holds no words"),
    ],
)
def test_a_part_that_is_no_text(folders: Folders, content: bytes, complaint: str) -> None:
    write(folders.data, valid=content)
    with pytest.raises(DataError, match=complaint):
        Wikitext103().prepare(folders)
    assert not list(folders.cache.glob("*/*")), "nothing is left that a later run would trust"


def test_cut_and_damaged_archives(folders: Folders, tmp_path: Path) -> None:
    # lines that do not compress to nothing, so that the damage hits them
    lines = "".join(f" {i * i * 7919 % 10007} \n" for i in range(5000))
    archive = folders.data / "wikitext-103-v1.zip"
    zipped(write(tmp_path / "aside", train=lines), archive, "wikitext-103")
    whole = archive.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 255
    for content, complaint in (
        (whole[: len(whole) // 2], r"wikitext-103-v1\.zip is cut short, damaged or no archive"),
        (bytes(damaged), r"wikitext-103-v1\.zip: wikitext-103/wiki\.train\.tokens is cut short, damaged"),
    ):
        archive.write_bytes(content)
        with pytest.raises(DataError, match=complaint):
            Wikitext103().prepare(folders)
    archive.unlink()
    folder = write(folders.data)
    (folder / "wiki.train.tokens").unlink()
    (folder / "wiki.train.tokens.gz").write_bytes(gzip.compress(lines.encode())[:-500])
    with pytest.raises(DataError, match=r"wiki\.train\.tokens\.gz is cut short, damaged"):
        Wikitext103().prepare(folders)


def test_a_replaced_file_is_read_anew(folders: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    write(folders.data)
    task = Wikitext103()
    first = task.prepare(folders).data_hash()
    assert "preparing wikitext-103" in capsys.readouterr().err
    assert task.prepare(folders).data_hash() == first
    assert capsys.readouterr().err == ""
    write(folders.data, test=" another text \n")
    assert task.prepare(folders).data_hash() != first


def test_the_same_text_gives_the_same_data(folders: Folders, tmp_path: Path) -> None:
    write(folders.data)
    for options in ({}, {"tokens": "byte_pairs", "vocabulary_size": 275}):
        other = Folders(data=folders.data, cache=tmp_path / "other")
        first, second = (Wikitext103(**options).prepare(place_) for place_ in (folders, other))
        assert first.data_hash() == second.data_hash()
        assert first.subsets["train"].identities() == second.subsets["train"].identities()
    assert Wikitext103(length=7).prepare(folders).data_hash() != Wikitext103(length=8).prepare(folders).data_hash()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The shared data in the official layout, its stand-ins for training and test text included."""
    shared = real_data("wikitext-2/valid.txt.gz").parents[1]
    root = tmp_path_factory.mktemp("wikitext")
    write_layout(shared, root / "data")
    return Folders(data=root / "data", cache=root / "cache")


@pytest.mark.parametrize(
    ("make", "vocabulary"),
    [
        (Wikitext103, 13090),
        (Wikitext2, 13090),
        (lambda: Wikitext2(tokens="byte_pairs", vocabulary_size=2000), 2000),
    ],
)
def test_the_real_text_has_its_known_counts(real: Folders, make: Callable[[], Wikitext103], vocabulary: int) -> None:
    prepared = make().prepare(real)
    assert prepared.spec.input_vocabulary == vocabulary
    words = {}
    for name, subset in prepared.subsets.items():
        assert isinstance(subset, TextBlocks)
        words[name] = int(subset.batch(np.arange(len(subset))).words.sum())
    # the published count of the validation text; train and test are halves of the published 245,569
    assert words["val"] == 217646
    assert words["train"] + words["test"] == 245569
    before, val = prepared.about.split("; val ")
    val, test = val.split("; test ")
    assert "NOT the published" in before and "NOT the published" in test
    assert val.startswith("3,760 lines, 217,646 words") and "NOT" not in val


def test_real_masked_text(real: Folders) -> None:
    prepared = Wikitext103Masked(text="tokens", vocabulary_size=2000).prepare(real)
    val = prepared.subsets["val"]
    assert isinstance(val, MaskedBlocks)
    batch = val.batch(np.arange(len(val)))
    assert batch.lengths.max() <= 512 and (batch.lengths > 400).float().mean() > 0.5
    assert abs(batch.scored.sum() / (batch.targets >= 4).sum() - 0.15) < 0.002
    assert val.lengths.sum() == len(val.tokens)


def shown(module: ModuleType) -> list[str]:
    """The example in a module's docstring."""
    return [line.strip() for line in module.__doc__.splitlines() if line.strip().startswith(("reads", "predicts"))]


@pytest.mark.parametrize(
    ("module", "make", "name"),
    [
        (wikitext103, Wikitext103, "wikitext-103"),
        (wikitext2, Wikitext2, "wikitext-2"),
        (wikitext103_masked, lambda: Wikitext103Masked(vocabulary_size=260), "wikitext-103-raw"),
    ],
)
def test_the_docstrings_show_real_examples(
    folders: Folders, real: Folders, module: ModuleType, make: Callable, name: str
) -> None:
    valid = (real.data / name / f"wiki.valid.{CORPORA[name].ending}").read_bytes()
    # the training text is not there: with this one no word of the validation text is unknown
    write(folders.data, name, train=valid, valid=valid)
    task = make()
    actual = task.example(task.prepare(folders), "val", 0).split("\n")
    expected = shown(module)
    assert len(expected) == len(actual) == 2
    for line, example in zip(expected, actual, strict=True):
        assert example.startswith(line)
