"""COGS: official files, groups by kind of generalisation, damaged files."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.real_data import real_data
from support.unreachable_addresses import unreachable

from attnlab.data.files.fetch import DataError, Folders
from attnlab.tasks.base import Prepared
from attnlab.tasks.cogs import task as cogs
from attnlab.tasks.cogs.files import FILES, KINDS, MAX_INPUT, MAX_OUTPUT, OFFICIAL, WORDS
from attnlab.tasks.cogs.task import LENGTH_BINS, Cogs

FIXTURE = Path(__file__).parents[1] / "fixtures" / "cogs" / "COGS"
UNTRAINED = {"cp_recursion": 844, "pp_recursion": 782, "lexical": 8}
"""rows of gen.tsv with an output word that no training row has"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """Lines of the official files in a clone; no network."""
    shutil.copytree(FIXTURE, tmp_path / "data" / "COGS")
    monkeypatch.setattr(cogs, "OFFICIAL", unreachable(OFFICIAL))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return Folders(data=tmp_path / "data", cache=tmp_path / "cache")


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return Cogs().prepare(Folders(data=real_data("COGS").parent, cache=tmp_path_factory.mktemp("cogs")))


def file_of(small: Folders, subset: str) -> Path:
    return small.data / "COGS" / "data" / FILES[subset]


def test_official_files(official: Prepared) -> None:
    assert official.about == (
        "COGS, official files: train 24,155, val 3,000, test/iid 3,000, test/gen 21,000; "
        "no test example is also in train"
    )
    sizes = {name: len(rows) for name, rows in official.subsets["test/gen"].groups.items()}
    assert sizes == {"lexical": 18_000, "structural": 3_000, **dict.fromkeys(KINDS, 1_000)}
    assert official.decode_limits == {"val": 163, "test/iid": 131, "test/gen": MAX_OUTPUT + 1}
    assert max(part.inputs.lengths.max() for part in official.subsets.values()) == MAX_INPUT + 2
    used = {word for part in official.subsets.values() for side in part.arrays()[::2] for word in np.unique(side)}
    assert used == {WORDS.start_id, WORDS.end_id, *range(3, len(WORDS))}, "every word of the vocabulary and no other"


def test_some_words_of_the_generalisation_test_are_never_trained(official: Prepared) -> None:
    """The docstring and docs/tasks.md say how many rows no model over words gets right."""
    gen, trained = official.subsets["test/gen"], official.subsets["train"].targets.values
    new = np.add.reduceat(~np.isin(gen.targets.values, trained), gen.targets.offsets[:-1]) > 0
    assert {group: int(new[gen.groups[group]].sum()) for group in UNTRAINED} == UNTRAINED
    assert new.sum() == sum(UNTRAINED.values())


def test_the_docstring_shows_a_real_example(official: Prepared) -> None:
    shown = [line.strip() for line in cogs.__doc__.splitlines() if line.startswith("    ")]
    assert Cogs().example(official, "train", 2).split("\n") == shown


def test_groups_and_lengths_of_a_few_lines(small: Folders) -> None:
    prepared = Cogs().prepare(small)
    gen = prepared.subsets["test/gen"]
    assert {name: rows.tolist() for name, rows in gen.groups.items()} == {
        "lexical": [0, 3, 4, 6],
        "structural": [1, 2, 5],
        "subj_to_obj_common": [4],
        "prim_to_subj_proper": [0],
        "active_to_passive": [3, 6],
        "obj_pp_to_subj_pp": [1],
        "cp_recursion": [2],
        "pp_recursion": [5],
    }
    assert not any(prepared.subsets[name].groups for name in ("train", "val", "test/iid"))
    assert gen.length_bins == LENGTH_BINS and gen.lengths.min() == 10
    assert prepared.spec.max_output_length == MAX_OUTPUT + 1
    assert prepared.about.startswith("COGS, not the official train.tsv, dev.tsv, test.tsv, gen.tsv: train 13, val 4")


def test_sentences_of_training_in_a_test_are_counted(small: Folders) -> None:
    row = file_of(small, "train").read_text().splitlines()[4]
    with file_of(small, "test/iid").open("a") as file:
        file.write(f"{row}\n")
    assert Cogs().prepare(small).about.endswith("also in train: 0 of 4 in val (0.0%), 1 of 5 in test/iid (20.0%), "
                                                "0 of 7 in test/gen (0.0%)")  # fmt: skip


def test_without_end_tokens(small: Folders) -> None:
    prepared = Cogs(end_token=False).prepare(small)
    assert prepared.decode_limits["test/iid"] == 10 and not prepared.spec.end_token
    assert len(prepared.subsets["test/gen"].groups["structural"]) == 3


@pytest.mark.parametrize(
    ("subset", "line", "complaint"),
    [
        (
            "val",
            "Ava ate .\teat . agent ( x _ 1 , Ava )",
            "dev.tsv, line 5: 3 columns expected, .* found 2 in 'Ava ate",
        ),
        (
            "train",
            "Ava aet .\teat\tin_distribution",
            "line 14: the word 'aet' is not in the vocabulary; the nearest is",
        ),
        ("test/gen", "Ava ate .\teat\tcp_recusion", "line 8: kind 'cp_recusion'; .*nearest: cp_recursion"),
        ("train", "a " * 61 + "a\ta\tprimitive", "line 14: 62 words, more than the 61 of the longest official line"),
        ("val", "Ava  ate .\teat\tx", "line 5: the word '' is not in the vocabulary"),
    ],
)
def test_a_wrong_line_is_named(small: Folders, subset: str, line: str, complaint: str) -> None:
    with file_of(small, subset).open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(DataError, match=complaint) as error:
        Cogs().prepare(small)
    assert "It is not the official file" in str(error.value)


def test_files_that_are_cut_short_empty_or_missing(small: Folders) -> None:
    file = file_of(small, "test/gen")
    whole = file.read_bytes()
    file.write_bytes(whole[:-8])
    with pytest.raises(DataError, match=r"gen.tsv, line 7: the file ends within this line, it is cut short"):
        Cogs().prepare(small)
    file.write_bytes(b"")
    with pytest.raises(DataError, match=r"gen.tsv is empty"):
        Cogs().prepare(small)
    file.unlink()
    with pytest.raises(DataError, match=r"gen.tsv is missing and could not be downloaded .*5.5 MB.*COGS/data/gen.tsv"):
        Cogs().prepare(small)
