"""Printed commands can be pasted into a shell for any folder name, and our parsers read them."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.small_runs import ROOT, SMALL_CLEVR, SMALL_SCAN, config_of, environment, jobs_of, settings
from support.written_runs import a_run

from attnlab.config.command_line.words import quoted_folder, read_override
from attnlab.config.job_config import apply_values, compose_config, job_config
from attnlab.config.message_text import command_line
from attnlab.config.problem import ConfigError
from attnlab.config.run_identity import run_folder
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import check_command
from attnlab.launch.console_summary import print_run, print_sweep
from attnlab.launch.evaluate_cli import ALLOWED, _job, _options_and_overrides
from attnlab.launch.train_cli import train_main
from attnlab.report.cli import report_main
from attnlab.report.runs.select_runs import select_jobs
from attnlab.run.warm_start import from_run_problems

ODD = "my runs (1) [2]"
FOLDERS = [ODD, "x=1,y=2", "it's", "a\\", "a\\'b", "a{b}$c;d&e|f", "[/bold]", "ü ß", "'", 'say "so"', "a  b "]


def commands(text: str) -> list[list[str]]:
    """The commands in a text, as a shell takes them apart."""
    lines = re.findall(r"(?:python (?:-m \S+|\w+\.py)|wandb (?:sync|leet)) .*", text)
    return [shlex.split(line.strip("`")) for line in lines]


def test_commands_of_ours_name_the_allowed_packages_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLAB_PLUGINS", "mine, yours")
    assert shlex.split(command_line("python evaluate.py", "run=x"))[0] == "ATTNLAB_PLUGINS=mine, yours"
    assert command_line("wandb leet", "x") == "wandb leet x"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_any_name_is_read_as_it_is(folder: str) -> None:
    """Said once, and said again with the quotes that Hydra gets."""
    for key in ("paths.runs", "+paths.data", "from_run", "+task.from_run"):
        word = f"{key}={folder}"
        assert shlex.split(command_line("python train.py", word))[2] == word
        if folder[:1] not in "'\"":
            assert read_override(word, CONF).values == (folder,)
            assert read_override(quoted_folder(word), CONF).values == (folder,)
    assert read_override("paths.runs=null", CONF).values == (None,)
    assert read_override("paths.runs='a b'", CONF).values == ("a b",)
    assert read_override("optim.lr=[1,2]", CONF).values == ([1, 2],)


def test_what_a_run_and_a_sweep_print(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = tmp_path / ODD
    words = settings(base, *SMALL_SCAN, "model=linear", logger="wandb_offline")
    config = jobs_of(words)[0]
    folder = a_run(run_folder(config), config, 0.5, data={}, steps_per_second=1.0)
    monkeypatch.setattr("sys.argv", ["train.py", *words])
    print_run(job_config(config), json.loads((folder / "result.json").read_text()), shown=True)
    printed = capsys.readouterr().out
    assert f"run folder: {folder}\n" in printed
    evaluate, leet = commands(printed)
    assert _job(*_options_and_overrides(evaluate[2:])).typed.paths.runs == f"{base}/runs"
    assert leet == ["wandb", "leet", f"{base}/runs/wandb"]
    assert print_sweep([job_config(config)], [ODD]) == 0
    # folded where the name is longer than a line
    assert ODD.replace(" ", "") in re.sub(r"\s", "", capsys.readouterr().out)


def test_what_a_report_prints(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    base, experiment = tmp_path / ODD, "park2024/table4_scan_small"
    words = [f"experiment={experiment}", f"paths.runs={base}", "model=linear", "seed=0,1"]
    source = select_jobs(experiment, words[1:])
    (trained,) = commands(source.command)
    assert [run_folder(job) for job in jobs_of(trained[2:])] == [run.folder for run in source.runs]
    assert report_main(words) == 1
    assert commands(capsys.readouterr().err) == [trained]
    composed_config = compose_config([f"experiment={experiment}", "model=linear", "seed=0"])
    composed_config["paths"]["runs"] = str(base)
    composed_config.pop("report")
    folder = a_run(run_folder(composed_config), composed_config, 0.25)
    out = tmp_path / "out (1)"
    assert report_main([*words, "figures=bars", f"out={out}"]) == 0
    again = commands(json.loads((out / "report.json").read_text())["report_command"])[0]
    assert report_main([*again[2:], f"out={tmp_path / 'again'}"]) == 0
    assert commands((out / "table.md").read_text()) == [trained, again]
    assert report_main([f"runs={base}", f"out={tmp_path / 'all'}"]) == 0
    again = commands(json.loads((tmp_path / "all" / "report.json").read_text())["report_command"])[0]
    assert again[2:] == [f"runs={base}"] and folder.is_dir()


def test_hints_are_quoted(tmp_path: Path) -> None:
    folder = tmp_path / ODD
    folder.mkdir()
    with pytest.raises(ConfigError) as result:
        _options_and_overrides([str(folder)])
    assert shlex.quote(f"run={folder}") in result.value.problems[0]


@pytest.mark.slow
def test_runs_that_begin_with_others(tmp_path: Path) -> None:
    """The folder below a name with blanks, as a word of the command line and as a preset gives it."""
    config = config_of(tmp_path, *SMALL_SCAN, "model=linear")
    config["paths"]["runs"] = str(tmp_path / ODD)
    folder = a_run(run_folder(config), config)
    job = jobs_of(["task=glue", "task.name=cola", "model=linear", f"from_run={folder}"])[0]
    assert job["from_run"] == job["task"]["from_run"] == str(folder)
    assert not from_run_problems(check_command([*SMALL_SCAN, "model=linear", f"from_run={folder}"]).jobs)
    words = ["experiment=qin2022/table5_glue", f"paths.runs={tmp_path / ODD}", "model=linear", "seed=0"]
    job = jobs_of(words)[0]
    assert job["from_run"].startswith(f"{tmp_path / ODD}/")
    (problem,) = from_run_problems([job_config(job)])
    assert jobs_of(commands(problem)[0][2:])
    assert apply_values(config, [f"paths.cache={tmp_path / ODD}"], ALLOWED).typed.paths.cache == str(tmp_path / ODD)


@pytest.mark.slow
def test_a_printed_command_pasted_into_a_shell(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluates a run below a folder with blanks and brackets, with the command that its training printed."""
    base = tmp_path / ODD
    words = settings(base, *SMALL_CLEVR, "model=linear", "train.max_steps=2", "train.validate_every=2")
    monkeypatch.setattr("sys.argv", ["train.py", *words])
    assert train_main(words) == 0
    printed = capsys.readouterr().out
    line = next(line.strip() for line in printed.splitlines() if "evaluate.py" in line)
    line = line.replace("python ", f"{shlex.quote(sys.executable)} ", 1)
    pasted = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=240, check=False
    )
    assert pasted.returncode == 0, pasted.stderr
    folder = Path(re.search(r"run folder: (.*)", printed)[1])
    assert folder.is_relative_to(base) and list((folder / "evaluations").glob("*.json"))
    assert f"paths.runs={base}/runs" in shlex.split(json.loads((folder / "result.json").read_text())["command"])
