"""README and docs: every command runs, shrunk to a few steps, or is checked; make targets, links and anchors exist."""

import json
import re
import runpy
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.official_layout_converters import pcfg
from support.real_data import real_data
from support.slow_cases import slow_except
from support.small_runs import ROOT, environment, jobs_of, run_command, run_job, settings
from support.tiny_data import TINY, trained

import attnlab
from attnlab.config.conf_files import group_choices
from attnlab.config.problem import ConfigError
from attnlab.config.sweep import check_command
from attnlab.config.targets import read_signature
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.launch.train_cli import planned_commands
from attnlab.nn.mechanism_table import MARKS, mechanisms, tables
from attnlab.report.cli import report_main

PAGES = {name: (ROOT / name).read_text() for name in ("README.md", *(f"docs/{f.name}" for f in ROOT.glob("docs/*.md")))}
LINKED = [
    *PAGES,
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    *(f"{at}/README.md" for at in ("data", "benchmarks", "experiments")),
]
BLOCKS = [
    block
    for name, text in sorted(PAGES.items(), key=lambda page: page[0] != "README.md")
    if name != "docs/extending.md"  # test_examples.py runs its commands
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    if not language
]
LINES = [re.split(r"\s+#", line)[0].strip() for block in BLOCKS for line in block.splitlines()]
TASK_OF = {"lra_google/text": "lra_text", "quickstart": "scan"}
TABLES = ("park2024/table4_scan",)
COMMANDS = list(dict.fromkeys(line for line in LINES if re.match(r"(python|make|wandb) ", line)))
TRAIN = [line for line in COMMANDS if line.startswith("python train.py") and "--help" not in line]
EVALUATE = [line for line in COMMANDS if line.startswith("python evaluate.py")]
TASKS = [line for line in COMMANDS if line.startswith("python -m attnlab.tasks")]
REPORT = [line for line in COMMANDS if line.startswith("python report.py")]


def task_of(line: str) -> str:
    """The task that a training command is about."""
    inputs = dict(word.partition("=")[::2] for word in shlex.split(line)[2:])
    return inputs.get("task") or TASK_OF.get(inputs.get("experiment"), "scan")


PYTHON = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
FIRST = list({task_of(line): line for line in reversed(TRAIN)}.values())
"""one command of each task, which is trained; the others are composed and checked as they stand"""


def smoke(line: str, folder: Path, data: Path) -> list[str]:
    """The command's arguments with everything made small: less data, fewer steps, small sizes."""
    if "<run folder>" in line:
        masked, _ = trained(data, folder, "wikitext103_masked", "model=transnormer_t2", "backbone.n_layers=1")
        line = line.replace("<run folder>", str(masked))
    arguments = shlex.split(line)[2:]
    inputs = dict(argument.partition("=")[::2] for argument in arguments)
    if "task.name" in inputs:
        inputs["task.dataset"] = inputs["task.name"]
    task = task_of(line)
    if inputs.get("experiment") in TABLES:
        # one cell of the table
        arguments = [word for word in arguments if not word.startswith(("model=", "seed="))]
        arguments += ["model=linear", "seed=0"]
    small = [word for word in TINY[task] if word.startswith("task.") and word.partition("=")[0] not in inputs]
    small = [] if task in ("scan", "pcfg") else small
    if inputs.get("task.dataset") == "selective_copying":
        small.append("task.tokens_to_copy=4")
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


def test_the_pages_show_commands() -> None:
    assert len(TRAIN) > 20 and len(FIRST) >= 8 and len(EVALUATE) >= 3 and len(REPORT) >= 6
    assert {"make train", "make test", "make report"} <= set(COMMANDS)


def test_all_train_commands_pass_the_check() -> None:
    """With one seed, for jobs of other seeds differ in nothing else, and where a line is there with `--plan` too, the
    plan alone; the run folder that one begins with is a matter of test_train_commands_run, and plans of all presets of
    a paper are a matter of test_costs.py."""
    left = ("/*", "<run folder>")
    lines = {line for line in TRAIN if not any(part in line for part in left) and f"{line} --plan" not in TRAIN}
    for words in dict.fromkeys(one_seed(line) for line in sorted(lines)):
        packages = {"hydra/sweeper=optuna": "optuna", "hydra/launcher=ray": "ray"}
        if any(word in words and find_spec(package) is None for word, package in packages.items()):
            with pytest.raises(ConfigError, match="is not installed"):
                check_command(words)
        else:
            commands = planned_commands(words) if "--plan" in words else {"": check_command(words)}
            assert commands and all(command.jobs for command in commands.values()), words


def one_seed(line: str) -> tuple[str, ...]:
    """The words of a training command, with the first seed of several; a preset's seeds become seed 0."""
    words = [word for word in shlex.split(line)[2:] if not word.startswith("from_run=")]
    words = [word.partition(",")[0] if word.startswith("seed=") else word for word in words]
    seeds = ["seed=0"] if words[0].startswith("experiment=") and not any(w.startswith("seed=") for w in words) else []
    return (*words, *seeds)


@pytest.mark.parametrize(
    "line",
    slow_except(FIRST, {line for line in FIRST if "<run folder>" in line}),
)
def test_train_commands_run(line: str, tmp_path: Path, tiny_data: Path) -> None:
    """The first as a command, the others as the jobs that it would run: Python starts slowly.

    Fast is one that begins with another run; test_every_task.py trains each task.
    """
    words = smoke(line, tmp_path, tiny_data)
    if line == TRAIN[0]:
        done = run_command("train.py", *words)
        assert done.returncode == 0, done.stderr[-3000:]
        return
    jobs = jobs_of(words)
    assert jobs
    for job in jobs:
        assert run_job(job, quiet=True) == 0


@pytest.mark.parametrize("line", slow_except(TASKS, TASKS[:1]))
def test_commands_about_tasks_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `python -m` runs the package, in this process."""
    data = tmp_path / "data"
    if "pcfg" in line:
        pcfg.write_layout(real_data("pcfg_set/pcfg_set.tar.gz"), data)
    words = [*shlex.split(line)[3:], f"paths.data={data}", f"paths.cache={tmp_path / 'cache'}"]
    monkeypatch.setattr(sys, "argv", ["attnlab.tasks", *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("attnlab.tasks", run_name="__main__")
    printed = capsys.readouterr().out
    assert not ended.value.code
    assert "example" in printed or "number 0" in printed


def test_help_runs_as_a_command() -> None:
    assert run_command("train.py", "--help").returncode == 0


@pytest.fixture(scope="module")
def scan_run(tmp_path_factory: pytest.TempPathFactory, tiny_data: Path) -> Path:
    """The folder of a finished run on SCAN."""
    folder = tmp_path_factory.mktemp("scan")
    (job,) = jobs_of(smoke("python train.py task=scan model=linear", folder, tiny_data))
    assert run_job(job, quiet=True) == 0
    return next((folder / "runs").glob("*/*/*/seed0"))


def test_python_examples_run(scan_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [block for page in ("README.md", "docs/python.md") for block in PYTHON.findall(PAGES[page])]
    assert len(blocks) >= 4
    for block in blocks:
        code = block.replace("<run folder>", str(scan_run)).replace("experiments/runs", str(scan_run.parents[3]))
        collected: dict[str, Any] = {}
        exec(code, collected)
        if "out" in collected:
            assert collected["out"].shape[0] == 2 and collected["out"].shape[2] == 64
        if "table" in collected:
            assert list(collected["table"].model) == ["linear"]
    assert "seed" in capsys.readouterr().out


def test_evaluate_commands_run(scan_run: Path) -> None:
    """In this process; test_printed_commands.py evaluates with a command in a shell."""
    for line in EVALUATE:
        arguments = shlex.split(line.replace("<run folder>", str(scan_run)))[2:]
        if any(argument.startswith("task.split=") for argument in arguments):
            arguments.append(f"paths.data={real_data('scan/SCAN.tar.gz').parent.parent}")
        assert evaluate_main(arguments) == 0


@pytest.mark.slow
def test_report_commands_run(tmp_path: Path, tiny_data: Path) -> None:
    for job in jobs_of(smoke(f"python train.py experiment={TABLES[0]}", tmp_path, tiny_data)):
        assert run_job(job, quiet=True) == 0
    for number, line in enumerate(REPORT):
        if line.split()[2].startswith(("experiment=", "task=")):
            words = smoke(line.replace("seed=0,1,2", "seed=0"), tmp_path, tiny_data)
            # the words of a sweep, whose jobs are trained first; finished ones are shown
            for job in jobs_of(["-m", *words]) if TABLES[0] not in line else ():
                assert run_job(job, quiet=True) == 0
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


def test_the_target_of_benchmarks_calls_all_of_them() -> None:
    lines = subprocess.run(["make", "-n", "bench"], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert "-m benchmarks.all\n" in lines


@pytest.mark.slow
def test_a_benchmark_runs_as_a_command(tmp_path: Path) -> None:
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
        *("startup", "startup_runs", "ortho_gram", "ortho_lengths", "ortho_tasks"),
        *("train_step_scan", "train_step_sort_of_clevr", "published_step", "against_commit"),
        *("decode_scan", "decode_step"),
        *(f"table7_{mode}_{number}" for mode in ("inference", "training") for number in (1, 2, 3)),
    }


def test_make_targets_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    named = {target for text in PAGES.values() for target in re.findall(r"(?:^|`)make ([a-z-]+)", text, flags=re.M)}
    assert len(named) >= 6 and named <= set(targets), named - set(targets)


def test_the_tables_of_mechanisms_are_the_present_ones() -> None:
    """A mechanism of a user's own needs no row; the README counts the models of the table."""
    page = PAGES["docs/models.md"]
    written = [line for line in page.partition(MARKS[0])[2].partition(MARKS[1])[0].splitlines() if line[:3] == "| `"]
    assert set(written) <= set(tables().splitlines()), (
        "write them anew: python -m attnlab.nn.mechanism_table docs/models.md"
    )
    models = {name for line in written for name in re.findall(r"`([a-z0-9_]+)`", line.split(" | ")[1])}
    assert f" {len(models & set(group_choices()['model']))} models " in PAGES["README.md"]


def test_the_check_of_a_command_knows_every_form_in_the_table() -> None:
    """A class that inherits the steps of another `attend` has none for the check."""
    assert not {path: lost for path in mechanisms() if (lost := read_signature(path).unsupported)}


def test_every_file_that_the_architecture_page_names_exists() -> None:
    named = re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|yaml))`", PAGES["docs/architecture.md"])
    collected = [name for name in named if any((folder / name).exists() for folder in (ROOT, ROOT / "src/attnlab"))]
    assert len(named) > 30 and set(named) - set(collected) == {"_base.yaml"}


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower()).strip())


def anchors(file: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", file.read_text(), flags=re.MULTILINE | re.DOTALL)
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)}


def test_links_lead_somewhere() -> None:
    """Relative links and anchors of README, docs and the other pages, without building the site."""
    n = 0
    for name in LINKED:
        page = ROOT / name
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists() and target.is_relative_to(ROOT), f"{name}: {link}"
            assert not anchor or anchor in anchors(target), f"{name}: {link}"
            n += 1
    assert n > 50


def test_the_readme_is_two_screens() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 110 and len(PAGES["README.md"]) <= 7500


def test_the_speed_in_the_readme_is_of_the_recorded_run_and_names_its_machine() -> None:
    result = json.loads((ROOT / "experiments/measured/quickstart/result.json").read_text())
    shown = re.search(r"training time +(\S+) s  \((\S+) steps/s\)", PAGES["README.md"])
    assert shown and shown.groups() == (f"{result['seconds']:.1f}", f"{result['steps_per_second']:.2f}")
    place = re.search(r"The time is of (.*)\.$", PAGES["README.md"], flags=re.MULTILINE)
    assert (
        place
        and result["hardware"]["cpu"] in place[1]
        and result["hardware"]["threads"] == 1
        and "one thread" in place[1]
    )


def test_project_files_agree() -> None:
    """Versions in the citation and the hook, and what the workflow calls."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == attnlab.__version__ and citation["title"] in PAGES["README.md"]
    assert f"version = {{{attnlab.__version__}}}" in PAGES["README.md"]
    (ruff,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert f"ruff=={ruff['rev'].removeprefix('v')}" in (ROOT / "requirements/constraints.txt").read_text().split()
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())["jobs"]
    assert {"make lint", "make test"} <= {step.get("run") for step in jobs["test"]["steps"]}
    assert "make test-cluster" in {step.get("run") for step in jobs["cluster"]["steps"]}
    assert len(jobs["test"]["strategy"]["matrix"]["python"]) >= 2
    for form in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        assert {"name", "description", "body"} <= yaml.safe_load(form.read_text()).keys()
