"""SCAN: grammar against the published files, splits, damaged files."""

import hashlib
import shutil
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.real_data import real_data
from support.slow_cases import slow_except
from support.unreachable_addresses import unreachable

from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import open_archive
from attnlab.tasks.base import Prepared
from attnlab.tasks.scan import task as scan
from attnlab.tasks.scan.grammar import INPUTS, MAX_INPUT, MAX_OUTPUT, OUTPUTS, all_pairs, interpret
from attnlab.tasks.scan.splits import Split, drawing, file_path
from attnlab.tasks.scan.task import Scan, parse_pairs

FIXTURE = Path(__file__).parents[1] / "fixtures" / "scan" / "SCAN"
PAIRS = all_pairs()
CUTS = {  # train, IID, OOD pairs at each cutoff of Csordas et al. 2021
    22: (15292, 1698, 3920),
    24: (15594, 1732, 3584),
    25: (15997, 1777, 3136),
    26: (16458, 1828, 2624),
    27: (16861, 1873, 2176),
    28: (17264, 1918, 1728),
    30: (17783, 1975, 1152),
    32: (18186, 2020, 704),
    33: (18416, 2046, 448),
    36: (18474, 2052, 384),
    40: (18704, 2078, 128),
}
ROWS = {  # train, test rows of the official files
    "simple": (16728, 4182),
    "length": (16990, 3920),
    "addprim_jump": (14670, 7706),
    "addprim_turn_left": (21890, 1208),
    "template_jump_around_right": (18528, 1173),
    "template_around_right": (15225, 4476),
    "filler_num0": (15225, 1173),
    "filler_num1": (16290, 1173),
    "filler_num2": (17391, 1173),
    "filler_num3": (18528, 1173),
}


def read_back(prepared: Prepared, subset: str) -> list[tuple[str, str]]:
    examples = prepared.subsets[subset]
    batch = examples.batch(np.arange(len(examples)))
    return [
        (" ".join(INPUTS.decode(command)), " ".join(OUTPUTS.decode(actions)))
        for command, actions in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True)
    ]


def test_the_grammar_has_all_pairs_once() -> None:
    assert len(PAIRS) == len({tuple(command) for command, _ in PAIRS}) == 20910
    assert max(len(command) for command, _ in PAIRS) == MAX_INPUT
    assert max(len(actions) for _, actions in PAIRS) == MAX_OUTPUT
    assert len(INPUTS) == 13 + 3
    assert len(OUTPUTS) == 6 + 3


def test_the_grammar_is_the_official_list() -> None:
    text = open_archive(real_data("scan/SCAN.tar.gz")).read(["tasks.txt"])["tasks.txt"].decode()
    assert {f"IN: {' '.join(command)} OUT: {' '.join(actions)}" for command, actions in PAIRS} == set(text.splitlines())


def test_the_docstring_shows_a_real_example() -> None:
    line = next(line.strip() for line in scan.__doc__.splitlines() if "IN:" in line)
    assert parse_pairs(line, "docstring")[0] in PAIRS


@given(st.integers(0, 305), st.integers(0, 305))
def test_joined_commands_mean_their_parts(first: int, second: int) -> None:
    (item, done), (two, did) = PAIRS[first % 102], PAIRS[second % 102]
    assert interpret([*item, "and", *two]) == done + did
    assert interpret([*item, "after", *two]) == did + done


@pytest.mark.parametrize("command", ["", "walk walk", "turn", "walk left opposite", "walk and", "run twice twice"])
def test_what_is_no_command_is_refused(command: str) -> None:
    with pytest.raises(ValueError, match="no phrase of the grammar"):
        interpret(command.split())


@pytest.mark.parametrize("cutoff", CUTS)
def test_cutoff_counts_are_the_published_ones(cutoff: int) -> None:
    parts = Scan(length_cutoff=cutoff)._cut()
    assert tuple(len(parts[name]) for name in ("train", "test/iid", "test/ood")) == CUTS[cutoff]


def test_the_cutoff_split_divides_all_commands(tmp_path: Path) -> None:
    folders = Folders(data=tmp_path / "none", cache=tmp_path / "none")
    prepared = Scan().prepare(folders)
    parts = {name: set(read_back(prepared, name)) for name in prepared.subsets}
    assert set.union(*parts.values()) == {(" ".join(command), " ".join(actions)) for command, actions in PAIRS}
    assert sum(map(len, parts.values())) == 20910
    assert prepared.subsets["test/ood"].lengths.min() == 27
    assert prepared.decode_limits == {"test/iid": 27, "test/ood": 49}
    assert prepared.data_hash() == Scan().prepare(folders).data_hash()
    assert prepared.data_hash() != Scan(data_seed=1).prepare(folders).data_hash()
    assert len(prepared.train_groups) == 1
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("cutoff", [1, 47])
def test_extreme_cutoffs_leave_nothing_empty(cutoff: int, tmp_path: Path) -> None:
    prepared = Scan(length_cutoff=cutoff).prepare(Folders(data=tmp_path, cache=tmp_path))
    assert all(len(subset) for subset in prepared.subsets.values())
    assert (prepared.spec.max_input_length, prepared.spec.max_output_length) == (11, 49)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    """A clone of a few lines in the official format, taken for the official one; no network."""
    shutil.copytree(FIXTURE, tmp_path / "data/SCAN")
    known = {}
    for path in (file_path("simple", part) for part in ("train", "test")):
        content = (FIXTURE / path).read_bytes()
        known[path] = len(content), hashlib.sha256(content).hexdigest()
    files = unreachable(replace(scan.OFFICIAL, files=scan.OFFICIAL.files | known))
    monkeypatch.setattr(scan, "OFFICIAL", files)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return Folders(data=tmp_path / "data", cache=tmp_path / "cache")


def test_sequences_are_framed(small: Folders) -> None:
    prepared = Scan(split="simple").prepare(small)
    batch = prepared.subsets["train"].batch(np.array([0, 1]))
    assert batch.inputs.tolist() == [
        [2, *INPUTS.encode(["run"]), 1, 0, 0],
        [2, *INPUTS.encode(["turn", "opposite", "left"]), 1],
    ]
    left = OUTPUTS.encode(["I_TURN_LEFT"])
    assert batch.targets.tolist() == [[*OUTPUTS.encode(["I_RUN"]), 1, 0], [*left, *left, 1]]
    assert prepared.subsets["train"].lengths.tolist() == [1, 2, 8, 8, 8]
    assert prepared.decode_limits == {"test": 3}


@pytest.mark.parametrize("location", ["SCAN", "scan/SCAN", "SCAN.tar.gz", "scan/SCAN.tar.gz", "SCAN/SCAN.tar.gz"])
def test_official_files_are_read_where_they_lie(small: Folders, location: str) -> None:
    expected = read_back(Scan(split="simple").prepare(small), "train")
    shutil.rmtree(small.data)
    (small.data / location).parent.mkdir(parents=True)
    if location.endswith(".gz"):
        with tarfile.open(small.data / location, "w:gz") as tar:
            tar.add(FIXTURE, arcname="SCAN-master")
    else:
        shutil.copytree(FIXTURE, small.data / location)
    assert read_back(Scan(split="simple").prepare(small), "train") == expected


@pytest.mark.parametrize("split", slow_except(ROWS, {"length", "addprim_jump", "template_around_right"}))
def test_official_splits(split: str, tmp_path: Path) -> None:
    folders = Folders(data=real_data("scan/SCAN.tar.gz").parents[1], cache=tmp_path)
    prepared = Scan(split=split).prepare(folders)
    assert (len(prepared.subsets["train"]), len(prepared.subsets["test"])) == ROWS[split]
    assert prepared.decode_limits["test"] == prepared.subsets["test"].lengths.max() + 1
    if split == "addprim_jump":
        assert read_back(prepared, "train").count(("jump", "I_JUMP")) > 1000


VERBS = ("walk", "look", "run", "jump")
RUN = "IN: run OUT: I_RUN\n"
RIGHT = "IN: jump around right OUT: " + " ".join(["I_TURN_RIGHT I_JUMP"] * 4) + "\n"


def official(name: str) -> str:
    """A file of the official repository."""
    return open_archive(real_data("scan/SCAN.tar.gz")).read([name])[name].decode()


def commands_of(text: str) -> set[str]:
    return {" ".join(command) for command, _ in parse_pairs(text, "official")}


@pytest.mark.parametrize(
    ("template", "split"),
    [
        # these two are here themselves, and show that the rule is the authors'
        ("around right", "template_around_right"),
        ("around right", "filler_num0"),
        ("right", "template_right"),
        ("opposite right", "template_opposite_right"),
    ],
)
def test_template_splits_follow_from_the_list_of_all_pairs(template: str, split: str, tmp_path: Path) -> None:
    parts: dict[str, list[str]] = {"train": [], "test": []}
    for line in official("tasks.txt").splitlines(keepends=True):
        command = f" {line.partition(' OUT:')[0]} "
        if f" turn {template} " not in command:
            held_out = any(f" {verb} {template} " in command for verb in VERBS)
            parts["test" if held_out else "train"].append(line)
    for part, lines in parts.items():
        content = "".join(lines).encode()
        if (split, part) != ("filler_num0", "test"):
            assert scan.OFFICIAL.files[file_path(split, part)] == (len(content), hashlib.sha256(content).hexdigest())
        location = tmp_path / "SCAN" / file_path(split, part)
        location.parent.mkdir(parents=True, exist_ok=True)
        location.write_bytes(content)
    if split != "filler_num0":
        prepared = Scan(split=split).prepare(Folders(data=tmp_path, cache=tmp_path / "none"))
        assert (len(prepared.subsets["train"]), len(prepared.subsets["test"])) == (15225, 4476)


def test_what_is_drawn_agrees_with_the_official_neighbours() -> None:
    few = drawing("fewshot_num4_rep2")
    assert few.always == commands_of(official("filler_split/tasks_train_filler_num0.txt"))
    assert few.always | few.pool == commands_of(official("filler_split/tasks_train_filler_num1.txt"))
    assert few.tested == commands_of(official("filler_split/tasks_test_filler_num0.txt"))
    jump = drawing("addprim_complex_jump_num4_rep2")
    assert jump.always == commands_of(official("add_prim_split/tasks_train_addprim_jump.txt"))
    assert jump.pool == commands_of(official("add_prim_split/tasks_test_addprim_jump.txt"))


def test_every_split_has_a_file_and_a_check() -> None:
    assert len(set(get_args(Split))) == 1 + 12 + 7 + 30 + 55
    for split in get_args(Split)[1:]:
        known = {file_path(split, part) for part in ("train", "test")} <= scan.OFFICIAL.files.keys()
        assert known != (drawing(split) is not None), split
    for name in (
        "simple_split/size_variations/tasks_train_simple_p64.txt",
        "add_prim_split/with_additional_examples/tasks_train_addprim_complex_jump_num16_rep1.txt",
        "few_shot_split/tasks_train_fewshot_num1024_rep5.txt",
        "template_split/tasks_train_template_opposite_right.txt",
        "add_prim_split/tasks_train_addprim_turn_left.txt",
    ):
        assert file_path(name.partition("tasks_train_")[2].removesuffix(".txt"), "train") == name


DRAWN = {  # rows of train and test when nothing is repeated
    "simple_p1": (209, 20701),
    "simple_p8": (1673, 19237),
    "simple_p64": (13382, 7528),
    "addprim_complex_jump_num1_rep1": (13205, 7705),
    "addprim_complex_jump_num32_rep5": (13236, 7674),
    "fewshot_num1_rep1": (15226, 1173),
    "fewshot_num1024_rep5": (16249, 1173),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that is served in place of the official repository."""
    folder = tmp_path / "site"
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        local = replace(scan.OFFICIAL, address=f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setattr(scan, "OFFICIAL", local)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield folder
        server.shutdown()


def draw_files(site: Path, split: str) -> dict[str, Path]:
    """Files as the official ones are, other commands drawn."""
    law, files = drawing(split), {}
    drawn = set(sorted(law.pool)[:: max(1, len(law.pool) // law.counts[-1])][: law.counts[-1]])
    held = {"train": law.always | drawn, "test": law.pool - drawn if law.tested is None else law.tested}
    for part, commands in held.items():
        files[part] = site / file_path(split, part)
        files[part].parent.mkdir(parents=True, exist_ok=True)
        lines = (f"IN: {command} OUT: {' '.join(interpret(command.split()))}\n" for command in sorted(commands))
        files[part].write_text("".join(lines))
    return files


@pytest.mark.parametrize(
    "split", slow_except(DRAWN, {"simple_p8", "addprim_complex_jump_num1_rep1", "fewshot_num1024_rep5"})
)
def test_drawn_splits_are_downloaded_and_counted(split: str, site: Path, tmp_path: Path) -> None:
    draw_files(site, split)
    folders = Folders(data=tmp_path / "data", cache=tmp_path / "cache")
    prepared = Scan(split=split).prepare(folders)
    train, test = DRAWN[split]
    assert abs(len(prepared.subsets["train"]) - train) <= split.startswith("simple")
    assert abs(len(prepared.subsets["test"]) - test) <= split.startswith("simple")
    target = folders.data / "SCAN" / file_path(split, "train")
    record = target.with_name(f"{target.name}.sha256").read_text()
    assert record.split()[0] == hashlib.sha256(target.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("split", "part", "change", "complaint"),
    [
        ("simple_p2", "train", lambda lines: lines[:-2], "train has 417 drawn commands, expected 418"),
        ("simple_p2", "test", lambda lines: lines[1:], "test lacks 'jump after jump'."),
        ("simple_p2", "test", lambda lines: [*lines, lines[5]], "test has a command twice"),
        ("fewshot_num2_rep3", "train", lambda lines: lines[:-1], "train lacks 'walk twice and walk twice'."),
        ("fewshot_num2_rep3", "test", lambda lines: lines[:9], " and 1,163 more."),
        ("fewshot_num2_rep3", "train", lambda lines: [*lines, RIGHT], "train should not hold 'jump around right'."),
        (
            "addprim_complex_jump_num2_rep1",
            "test",
            lambda lines: [*lines, RUN],
            "test should not hold 'run'.",
        ),
    ],
)
def test_other_files_than_the_split_s_are_refused(
    tmp_path: Path, split: str, part: str, change: object, complaint: str
) -> None:
    file = draw_files(tmp_path / "SCAN", split)[part]
    file.write_text("".join(change(file.read_text().splitlines(keepends=True))))
    with pytest.raises(DataError) as error:
        Scan(split=split).prepare(Folders(data=tmp_path, cache=tmp_path / "cache"))
    assert str(error.value).startswith(f"SCAN/{file_path(split, 'train')}, SCAN's split {split}: ")
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("IN: run OUT: I_WALK", "'run' means 'I_RUN', found 'I_WALK'"),
        ("IN: rnu OUT: I_RUN", "'rnu' is not in the vocabulary; the nearest is 'run'"),
        ("IN: run OUT: RUN", "'RUN' is not in the vocabulary"),
        ("IN: run twice I_RUN I_RUN", "expected, found 'IN: run twice I_RUN I_RUN'"),
        ("IN: run  OUT: I_RUN", "'' is not in the vocabulary"),
        ("IN: turn OUT: I_TURN_LEFT", "no phrase of the grammar"),
        ("", "expected, found ''"),
    ],
)
def test_a_bad_line_is_named(small: Folders, line: str, complaint: str) -> None:
    file = small.data / "SCAN/simple_split/tasks_train_simple.txt"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], line, *lines[3:]]) + "\n")
    with pytest.raises(DataError) as error:
        Scan(split="simple").prepare(small)
    assert str(error.value).startswith(f"{file}, line 3: ")
    assert complaint in str(error.value)


def test_a_file_cut_inside_a_line_names_the_line(small: Folders) -> None:
    file = small.data / "SCAN/simple_split/tasks_train_simple.txt"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataError, match="line 5"):
        Scan(split="simple").prepare(small)


def test_a_file_cut_between_lines_fails_its_checksum(small: Folders) -> None:
    file = small.data / "SCAN/simple_split/tasks_test_simple.txt"
    size, expected = scan.OFFICIAL.files[file_path("simple", "test")]
    content = b"".join(file.read_bytes().splitlines(keepends=True)[:-1])
    file.write_bytes(content)
    with pytest.raises(DataError) as error:
        Scan(split="simple").prepare(small)
    for part in (str(file), expected, hashlib.sha256(content).hexdigest(), f"{len(content)} bytes where {size}"):
        assert part in str(error.value)
    assert file.read_bytes() == content


def test_a_missing_file_says_where_it_belongs(small: Folders) -> None:
    with pytest.raises(DataError) as error:
        Scan(split="length").prepare(small)
    for part in (
        "tasks_train_length.txt",
        "2.7 MB",
        str(small.data / "SCAN/length_split"),
        "http://127.0.0.1:9/",
    ):
        assert part in str(error.value)
