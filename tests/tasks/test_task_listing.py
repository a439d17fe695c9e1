"""`python -m attnlab.tasks`: the list of tasks, preparation of one task, wrong command lines."""

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.small_runs import ROOT, environment
from support.user_inputs import WRITTEN

from attnlab.config.job_config import compose_config
from attnlab.config.shipped_files import CONF
from attnlab.data.files.fetch import Folders, OfficialFile
from attnlab.data.files.folder_or_archive import DataSource
from attnlab.launch.task_listing import choices, example
from attnlab.launch.tasks_cli import main
from attnlab.tasks.base import make_task
from attnlab.tasks.mqar import Mqar

SHIPPED = sorted(WRITTEN)
NEEDY = '''\
"""Letters (A. Nobody 2024): is the letter
a vowel?

One example:

    letter  e

    answer  1

| no | example |
"""

from typing import Annotated, Literal

import numpy as np

from attnlab.data.task_spec import TaskSpec
from attnlab.data.files.cache import build_once, cache_key, load_arrays
from attnlab.data.files.cache import save_arrays
from attnlab.data.files.fetch import OfficialFile
from attnlab.data.examples import LabelledSequences
from attnlab.data.ragged_arrays import Ragged
from attnlab.data.files.folder_or_archive import DataSource
from attnlab.tasks.base import Prepared, Task


class Letters(Task):
    kind = "classification"
    modality = "tokens"
    version = 7
    published = "train 3, test 2"

    def __init__(
        self,
        size: Literal["small", "large", "own"] = "small",
        alphabet: str = "latin",
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.size = size

    def sources(self) -> list[DataSource]:
        offers = ("a copy from A. Nobody, 2 kB",)
        small = DataSource(title="the letters", paths=("letters", "letters.zip"), offers=offers)
        archive = OfficialFile(path="large.tar", url="http://127.0.0.1:9/large.tar", size=2_500_000)
        large = DataSource(title="the large letters", paths=("large", "large.tar"), archive=archive)
        return {"small": [small], "large": [large], "own": []}[self.size]

    def example(self, prepared, subset, number):
        part = prepared.subsets[subset]
        return f"letter  {chr(part.inputs[number][0])}\\nanswer  {part.answers[number]}" + " " + "x" * 2000

    def prepare(self, folders):
        tree = self.sources()[0].open(folders)
        files = tree.read(["train.txt", "test.txt"])

        def build(folder):
            for name, text in files.items():
                save_arrays(folder, **{name[:-4]: np.frombuffer(text, dtype=np.uint8)})

        folder = build_once(folders.cache / cache_key("letters", 7, {}), build, "letters")
        subsets = {}
        for name, letters in load_arrays(folder).items():
            answers = np.isin(letters, list(b"aeiou")).astype(int)
            subsets[name] = LabelledSequences(Ragged(letters, np.arange(len(letters) + 1)), answers, 0)
        return Prepared(spec=TaskSpec(kind="classification", modality="tokens"), subsets=subsets, about="all letters")
'''
YAML = """\
# @package _global_
task:
  _target_: letters_task.Letters
  name: letters
  label: [size, alphabet]
  size: small
  alphabet: latin
  data_seed: 0

"""


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository's configuration with one more task, whose files are not there; no network."""
    folder = tmp_path / "conf"
    shutil.copytree(CONF, folder)
    # the settings of another kind of task: the default model does not go with these, which is no matter of data
    _, key, rest = (CONF / "task/scan.yaml").read_text().partition("backbone:")
    (folder / "task/letters.yaml").write_text(YAML + key + rest)
    (tmp_path / "letters_task.py").write_text(NEEDY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ATTNLAB_PLUGINS", "letters_task")
    monkeypatch.setenv("ATTNLAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("COLUMNS", "120")
    return folder


def run(capsys: pytest.CaptureFixture[str], conf: Path, *argv: str) -> tuple[int, str, str]:
    """Returns exit code and output, with runs of white space as one space."""
    code = main(argv, conf)
    out, err = capsys.readouterr()
    return code, " ".join(out.split()), err


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_task_can_be_listed(name: str) -> None:
    options = compose_config([f"task={name}"])["task"]
    task = make_task(options)
    docstring = inspect.cleandoc(sys.modules[type(task).__module__].__doc__)
    assert example(docstring)
    assert not docstring.startswith(" ") and task.published
    for option, values in choices(options).items():
        for value in values:
            for source in make_task({**options, option: value}).sources():
                assert source.paths and source.ways(Folders(Path("data"), Path("cache")))


def test_all_tasks_are_listed_without_preparing_any(
    capsys: pytest.CaptureFixture[str], conf: Path, tmp_path: Path
) -> None:
    code, out, _ = run(capsys, conf)
    assert code == 0
    for name in SHIPPED:
        assert f"{name} " in out
    assert "letters classification of tokens Letters (A. Nobody 2024): is the letter a vowel? splits" in out
    assert "task.size: small (default), large, own task.alphabet: latin (default) published train 3, test 2" in out
    small = f"missing get a copy from A. Nobody, 2 kB put {tmp_path}/data/letters"
    large = "missing; downloaded when needed get http://127.0.0.1:9/large.tar (2.5 MB)"
    assert f"files size=small; alphabet=latin: the letters: {small} size=large: the large letters: {large}" in out
    assert f"put {tmp_path}/data/large.tar size=own: none needed: generated example letter e answer 1 " in out
    assert re.search(r"files missing [a-z0-9_, ]*letters", out)
    assert not (tmp_path / "data").exists() and not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_files_are_found_where_they_lie(capsys: pytest.CaptureFixture[str], conf: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere/letters"
    folder.mkdir(parents=True)
    (folder / "train.txt.lock").touch()
    left = run(capsys, conf, f"paths.data={folder.parent}")[1]
    assert re.search(r"files missing [a-z0-9_, ]*letters", left), "a failed download leaves a lock and no files"
    (folder / "train.txt").write_text("abe")
    code, out, _ = run(capsys, conf, f"paths.data={folder.parent}")
    assert code == 0
    assert f"size=small; alphabet=latin: the letters: found at {folder} size=large:" in out
    assert "letters" not in out.rpartition("files missing")[2].partition("One of them")[0]


def test_one_task_is_prepared_and_counted(capsys: pytest.CaptureFixture[str], conf: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data/letters"
    folder.mkdir(parents=True)
    (folder / "train.txt").write_text("abe")
    (folder / "test.txt").write_text("ae")
    code, out, err = run(capsys, conf, "letters", "task.data_seed=3")
    assert (code, err) == (0, "")
    assert f"published train 3, test 2 files the letters: found at {folder}" in out
    assert "subset examples length also in train test 2 1 2 train 3 1 about all letters data version 7, hash " in out
    (kept,) = (tmp_path / "cache").glob("letters-v7-*/")
    size = sum(file.stat().st_size for file in kept.iterdir())
    assert f"{size / 1e6:.1f} MB in the cache; {kept} " in out
    assert "test, number 0 letter a answer 1 xxx" in out and "x ... (1,020 characters more) train, number 0" in out


def test_a_task_without_files_and_cache(capsys: pytest.CaptureFixture[str], conf: Path) -> None:
    code, out, _ = run(capsys, conf, "scan", "task.length_cutoff=40")
    assert code == 0
    assert "files none needed: generated subset examples length also in train train 18,704 1 to 40" in out
    assert "test/ood 128 48 0 data version 1, hash" in out
    assert " s train, number 0 IN: walk OUT: I_WALK" in out


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("small", "failed: the letters: missing; {data} has none of letters, letters.zip. Where to get it: a copy from "
         "A. Nobody, 2 kB, to be put at {data}/letters. Another data folder: paths.data=... or ATTNLAB_DATA.\n"),
        ("large", "failed: large.tar is missing and could not be downloaded from http://127.0.0.1:9/large.tar"),
    ],
)  # fmt: skip
def test_missing_files_of_a_named_task(
    capsys: pytest.CaptureFixture[str], conf: Path, tmp_path: Path, size: str, said: str
) -> None:
    code, out, err = run(capsys, conf, "letters", f"task.size={size}")
    assert code == 1
    assert "letters: missing" in out
    assert err.startswith(said.format(data=tmp_path / "data"))


def test_data_that_does_not_fit_into_memory_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(*inputs: object) -> None:
        raise MemoryError("Unable to allocate 74.5 GiB")

    monkeypatch.setattr(Mqar, "draw", draw)
    assert main(["mqar", f"paths.cache={tmp_path}"]) == 1
    said = capsys.readouterr().err
    assert "does not fit into memory" in said and "74.5 GiB" in said and "Traceback" not in said


def test_every_way_to_missing_files_is_told() -> None:
    archive = OfficialFile(path="reviews/r.tar", url="https://example.org/r.tar")
    source = DataSource(title="reviews", paths=("r",), archive=archive, offers=("a copy", "another"))
    text = source.missing(Folders(Path("data"), Path("cache")))
    assert "reviews: missing; data has none of r. Where to get it: https://example.org/r.tar, to be put at " in text
    assert "data/reviews/r.tar; or a copy, to be put at data/r; or another, to be put at data/r. " in text


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["leters"], "leters: no such task; nearest: letters; tasks: "),
        (["task=clevr"], "clevr: no such task; nearest: sort_of_clevr"),
        (["scan", "letters"], "scan letters: one task at a time"),
        (["letters", "task.size=smal"], "task.size=smal: expected one of small, large, own; nearest: small"),
        (["letters", "task.sise=small"], "task.sise=small: unknown key; nearest: task.size"),
        (["letters", "task.data_seed=-1"], "task.data_seed=-1: expected a whole number >= 0"),
        (["letters", "size=small"], "size=small: data depends on task.* and paths.* only; nearest: task.size"),
        (["letters", "model=linear"], "model=linear: data depends on task.* and paths.* only"),
        (["letters", "task.size=small,large"], "task.size=small,large: several values"),
        (["letters", "paths.data="], "paths.data="),
        (["task.size=small"], "task.size=small: of which task?"),
        (["--all"], "--all: unknown flag"),
    ],
)
def test_command_lines_that_mean_nothing(
    capsys: pytest.CaptureFixture[str], conf: Path, argv: list[str], said: str
) -> None:
    code, out, err = run(capsys, conf, *argv)
    assert (code, out) == (2, "")
    assert err.splitlines()[1].startswith(f"  - {said}")
    assert err.endswith("`python -m attnlab.tasks --help` lists what is allowed.\n")


@pytest.mark.parametrize(("argv", "code"), [(["--help"], 0), (["scna"], 2)])
def test_the_command_answers_without_loading_torch(argv: list[str], code: int) -> None:
    check = f"import sys; from attnlab.launch.tasks_cli import main; assert main({argv}) == {code}"
    line = [sys.executable, "-c", f"{check}; assert not {{'torch', 'numpy'}} & set(sys.modules)"]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
