"""Every command of the README runs, shrunk to a few steps; its make targets exist."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.official_layout_converters import pcfg
from support.real_data import real_data
from support.small_runs import ROOT, environment, jobs_of, run_command, run_job, settings
from support.tiny_data import TINY, trained

from attnlab.config.capabilities import can, models_that_can
from attnlab.config.compose import group_choices
from attnlab.config.shipped_files import CONF
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.report.cli import report_main

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
LINES = [line.split(" #")[0].strip() for block in BLOCKS for line in block.splitlines()]
TASK_OF = {"lra_google/text": "lra_text", "quickstart": "scan"}
TABLES = ("park2024/table4_scan",)
COMMANDS = [line for line in LINES if re.match(r"(python|make|wandb) ", line)]
TRAIN = [line for line in COMMANDS if line.startswith("python train.py") and "--help" not in line]
EVALUATE = [line for line in COMMANDS if line.startswith("python evaluate.py")]
TASKS = [line for line in COMMANDS if line.startswith("python -m attnlab.tasks")]
REPORT = [line for line in COMMANDS if line.startswith("python report.py")]


def smoke(line: str, folder: Path, data: Path) -> list[str]:
    """The command's arguments with everything made small: less data, fewer steps, small sizes."""
    if "<run folder>" in line:
        masked, _ = trained(data, folder, "wikitext103_masked", "model=transnormer_t2", "backbone.n_layers=1")
        line = line.replace("<run folder>", str(masked))
    arguments = shlex.split(line)[2:]
    given = dict(argument.partition("=")[::2] for argument in arguments)
    task = given.get("task") or TASK_OF.get(given.get("experiment"), "scan")
    if given.get("experiment") in TABLES:
        # one cell of the table
        arguments = [word for word in arguments if not word.startswith(("model=", "seed="))]
        arguments += ["model=linear", "seed=0"]
    small = [word for word in TINY[task] if word.startswith("task.") and word.partition("=")[0] not in given]
    small = [] if task in ("scan", "pcfg") else small
    extra = [*settings(folder), "debug=smoke", "train.max_steps=2", "train.eval_batch_size=4096", *small]
    if "task.split=simple" in arguments:
        extra.append(f"paths.data={real_data('scan/SCAN.tar.gz').parent.parent}")
    elif task == "pcfg":
        pcfg.write_layout(real_data("pcfg_set/pcfg_set.tar.gz"), folder / "data")
        extra = [f"paths.data={folder / 'data'}", *extra]
        arguments = [word.replace("productivity", "small_10k") for word in arguments]
    else:
        extra.append(f"paths.data={data / 'data'}")
    return [*arguments, *extra]


def test_the_readme_shows_commands() -> None:
    assert len(TRAIN) >= 6 and len(EVALUATE) >= 2
    assert {"make train", "make test"} <= set(COMMANDS)


@pytest.mark.parametrize("line", TRAIN)
def test_train_commands_run(line: str, tmp_path: Path, tiny_data: Path) -> None:
    """The first as a command, the others as the jobs that it would run: Python starts slowly."""
    words = smoke(line, tmp_path, tiny_data)
    if line == TRAIN[0]:
        done = run_command("train.py", *words)
        assert done.returncode == 0, done.stderr[-3000:]
        return
    jobs = jobs_of(words)
    assert jobs
    for job in jobs:
        assert run_job(job, quiet=True) == 0


@pytest.mark.parametrize("line", TASKS)
def test_commands_about_tasks_run(line: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    if "pcfg" in line:
        pcfg.write_layout(real_data("pcfg_set/pcfg_set.tar.gz"), data)
    words = [sys.executable, *shlex.split(line)[1:], f"paths.data={data}", f"paths.cache={tmp_path / 'cache'}"]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "example" in done.stdout or "number 0" in done.stdout


def test_help_runs_as_a_command() -> None:
    assert run_command("train.py", "--help").returncode == 0


def test_evaluate_commands_run(tmp_path: Path, tiny_data: Path) -> None:
    """The first as a command, the others in this process."""
    (job,) = jobs_of(smoke("python train.py task=scan model=linear", tmp_path, tiny_data))
    assert run_job(job, quiet=True) == 0
    run = next((tmp_path / "runs").glob("*/*/*/seed0"))
    for line in EVALUATE:
        arguments = shlex.split(line.replace("<run folder>", str(run)))[2:]
        if any(argument.startswith("task.split=") for argument in arguments):
            arguments.append(f"paths.data={real_data('scan/SCAN.tar.gz').parent.parent}")
        if line == EVALUATE[0]:
            done = run_command("evaluate.py", *arguments)
            assert done.returncode == 0, done.stderr[-3000:]
        else:
            assert evaluate_main(arguments) == 0


def test_report_commands_run(tmp_path: Path, tiny_data: Path) -> None:
    for job in jobs_of(smoke(f"python train.py experiment={TABLES[0]}", tmp_path, tiny_data)):
        assert run_job(job, quiet=True) == 0
    for number, line in enumerate(REPORT):
        if "experiment=" in line:
            words = smoke(line, tmp_path, tiny_data)
        else:
            run = next((tmp_path / "runs").glob("*/*/*/seed0"))
            line = re.sub(r"<[^>]+>", str(run), line).replace("experiments/runs", str(tmp_path / "runs"))
            words = shlex.split(line)[2:]
            # these runs are of debug=smoke, which a report of runs leaves out
            words += ["include=debug"] if words[0].startswith("runs=") else []
        out = tmp_path / f"out{number}"
        assert report_main([*words, f"out={out}"]) == 0
        assert list(out.glob("*.png"))


def run_benchmark(*arguments: str, results: Path, timeout: float = 240) -> None:
    """A benchmark with one thread, its results into a folder."""
    line = [sys.executable, "-m", *arguments]
    env = environment() | {"BENCHMARK_RESULTS": str(results)}
    done = subprocess.run(line, capture_output=True, text=True, env=env, cwd=ROOT, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr


def test_benchmarks_run(tmp_path: Path) -> None:
    """What `make bench` calls, and one of them for real; the others in make test-all."""
    lines = subprocess.run(["make", "-n", "bench"], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert "-m benchmarks.all\n" in lines
    sizes = ("--seconds", "0", "--threads", "1", "--lengths", "64,128", "--batch", "1")
    run_benchmark("benchmarks.attention", "--models", "linear,vanilla", *sizes, results=tmp_path)
    assert list(tmp_path.glob("attention_*.csv"))


@pytest.mark.slow
def test_all_benchmarks_run_to_their_end(tmp_path: Path) -> None:
    """Every line of `make bench`, and the benchmarks that it leaves out, at tiny sizes.

    Not `make bench` itself: it measures for minutes, and pip would install the package anew below other tests.
    """
    run_benchmark("benchmarks.all", "--tiny", "--threads", "1", results=tmp_path, timeout=1800)
    written = {file.name.rpartition("-")[0].rpartition("-")[0] for file in tmp_path.glob("*.csv")}
    assert len({name for name in written if name.startswith("attention_")}) > 5
    assert {name for name in written if not name.startswith("attention_")} == {
        *("startup", "startup_runs", "report", "ortho_gram", "ortho_lengths", "ortho_tasks"),
        *("train_step_scan", "train_step_sort_of_clevr", "packed_scan", "processes_scan"),
        *("decode_scan", "decode_step", "decode_share", "loading", "cross_entropy", "padding", "targets"),
    }


def test_make_targets_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    named = set(re.findall(r"`?make ([a-z-]+)", README))
    assert named <= set(targets), named - set(targets)


def test_the_table_of_models_is_right() -> None:
    """Every model once, but for those in folders, and a yes for each form that all its attentions have."""
    rows = [line.strip("| ").split(" | ") for line in README.splitlines() if line.startswith("| `")]
    said = {name: row[2:] for row in rows if len(row) == 6 for name in re.findall(r"`([a-z0-9_]+)`", row[0])}
    assert sorted(said) == [name for name in group_choices()["model"] if "/" not in name]
    slots = (("bidirectional", "encoder"), ("causal", "decoder"), ("cross", "cross"), ("step", "decoder"))
    for column, (form, slot) in enumerate(slots):
        able = models_that_can(CONF, lambda found, p=slot, f=f"supports_{form}": all(can(one, f) for one in found[p]))
        names = able.partition(": ")[2].split(", ")
        assert {name for name, cells in said.items() if cells[column] != "no"} == set(names), form
    assert {name for name, cells in said.items() if "cross only" in cells} == {"linformer"}


def test_every_file_that_the_architecture_page_names_exists() -> None:
    named = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|yaml))`", (ROOT / "docs/architecture.md").read_text())
    found = [name for name in named if any((folder / name).exists() for folder in (ROOT, ROOT / "src/attnlab"))]
    assert len(named) > 30 and set(named) - set(found) == {"_base.yaml"}
