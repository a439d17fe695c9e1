"""Paths that a user gives: home folders are written out once, addresses are refused before anything is written."""

import json
import pwd
from pathlib import Path

import pytest
import yaml
from support.small_runs import SMALL_SCAN

from attnlab import load_run, runs
from attnlab.config.conf_files import group_choices, task_yaml
from attnlab.config.job_config import job_config
from attnlab.config.problem import ConfigError
from attnlab.config.run_identity import run_tag
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import check_command
from attnlab.config.targets import read_signature
from attnlab.config.user_path import PATH_OPTIONS, expanded, user_path
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.launch.tasks_cli import main as tasks_main
from attnlab.launch.train_cli import train_main
from attnlab.report.cli import report_main
from attnlab.run.named_runs import paths_here

ADDRESSES = [
    "s3://bucket/x",
    "gs://b",
    "gcs://b",
    "hdfs://name:8020/x",
    "http://h/x",
    "https://h/x",
    "file:///x",
    "az://b",
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder; the current folder is another one."""
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "home"


def files_of(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


def test_home_folders_are_written_out(home: Path) -> None:
    assert expanded("~/x") == str(home / "x") and expanded("~") == str(home)
    assert Path(expanded("~root/x")) == Path(pwd.getpwnam("root").pw_dir, "x")
    for plain in ("data/cache", "/a/~b", "./~x", "a~", "$HOME/x", "./s3:/x", "a:b"):
        assert expanded(plain) == plain and user_path("out", plain) == Path(plain)
    with pytest.raises(ConfigError, match=r"out=~nobody-here/x.*no home folder of ~nobody-here.*\./~nobody-here/x"):
        user_path("out", "~nobody-here/x")


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses_are_refused(address: str) -> None:
    for text in (address, Path(address)):
        with pytest.raises(ConfigError, match=r"out=.*is an address; expected a folder"):
            user_path("out", text)


def test_the_configuration_has_whole_paths_and_the_same_identity(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLAB_DATA", "~/data")
    words = ["task=scan", "model=linear", "paths.runs=~/r", "paths.cache=~/c"]
    (job,) = check_command(words).jobs
    assert job.raw["paths"] == {name: str(home / name[0]) for name in ("runs", "cache")} | {"data": str(home / "data")}
    assert job.folder.is_relative_to(home / "r") and run_tag(job.raw) == "default"
    assert job_config(job.raw | {"paths": {name: f"~/{name[0]}" for name in job.raw["paths"]}}).folder == job.folder
    assert paths_here({"data": "data", "cache": "x", "runs": "y"})["data"] == "~/data"
    (warm,) = check_command([*words, "from_run=~/r/a,b/seed0"]).jobs
    assert warm.typed.from_run == str(home / "r/a,b/seed0")


def test_a_run_in_the_home_folder_is_trained_evaluated_and_reported(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SMALL_SCAN, "model=linear", "train.max_steps=2", "logger=csv", "paths.cache=~/cache"]
    assert train_main([*words, "paths.runs=~/my runs"]) == 0
    (config,) = home.rglob("config.yaml")
    assert yaml.safe_load(config.read_text())["paths"]["runs"] == str(home / "my runs")
    run = f"~/{config.parent.relative_to(home)}"
    assert evaluate_main([f"run={run}", "out=~/found", "paths.cache=~/cache"]) == 0
    assert json.loads(next((home / "found").glob("*.json")).read_text())["metrics"]
    assert report_main(["runs=~/my runs/*", "out=~/report"]) == 0
    assert (home / "report/table.md").exists()
    assert len(runs("~/my runs")) == len(runs("~/my*")) == 1 and load_run(run).config["model"]["name"] == "linear"
    assert train_main([*words, "paths.runs=~/other", f"from_run={run}"]) == 0
    assert files_of(Path.cwd()) == []
    capsys.readouterr()


COMMANDS = {
    "paths.runs": (train_main, ["task=scan", "paths.runs={}"]),
    "paths.data": (train_main, ["task=scan", "paths.data={}"]),
    "paths.cache": (train_main, ["task=scan", "paths.cache={}"]),
    "from_run": (train_main, ["task=scan", "from_run={}"]),
    "task.from_run": (train_main, ["task=glue", "task.from_run={}"]),
    "task.tokenizer": (train_main, ["task=wikitext103_masked", "task.tokenizer={}"]),
    "hydra.launcher.submitit_folder": (
        train_main,
        ["-m", "task=scan", "seed=0,1", "hydra/launcher=submitit_slurm", "hydra.launcher.submitit_folder={}"],
    ),
    "run": (evaluate_main, ["run={}"]),
    "runs": (report_main, ["runs={}"]),
    "out": (report_main, ["runs=x", "out={}"]),
    "diagnose": (report_main, ["diagnose={}"]),
    "compare": (report_main, ["diagnose=x", "compare={}"]),
    "measured": (report_main, ["page", "measured={}"]),
    "pictures": (tasks_main, ["sort_of_clevr", "pictures={}"]),
}


@pytest.mark.parametrize("path", ["s3://bucket/x", "~nobody-here/x"])
@pytest.mark.parametrize("key", COMMANDS)
def test_every_command_names_key_and_value_and_writes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str], key: str, path: str
) -> None:
    main, words = COMMANDS[key]
    assert main([word.format(path) for word in words]) == 2
    printed = capsys.readouterr()
    assert f"{key}={path}: " in printed.out + printed.err
    assert files_of(home.parent) == [home, Path.cwd()] or files_of(home.parent) == [Path.cwd(), home]


@pytest.mark.parametrize("name", ["ATTNLAB_DATA", "ATTNLAB_CACHE"])
def test_an_address_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "gs://bucket")
    with pytest.raises(ConfigError, match=f"paths.{name[8:].lower()}=gs://bucket: "):
        check_command(["task=scan"])


def test_every_option_of_a_task_that_is_a_path_is_known() -> None:
    endings = ("_run", "_file", "_folder", "_path", "tokenizer")
    nodes = [task_yaml(name, CONF) for name in group_choices()["task"]]
    options = {key for node in nodes for key in read_signature(node["_target_"]).arguments if key.endswith(endings)}
    assert options == set(PATH_OPTIONS)
