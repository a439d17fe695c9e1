"""The commands of docs/extending.md, with the examples in place: in a copy of this repository, and outside it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.small_runs import ROOT, environment

PAGE = (ROOT / "docs/extending.md").read_text()
SMALL = "debug=smoke trainer.device=cpu logger=csv train.max_steps=2"
QUICK = ("-k", "short_sequences or steps_equal or future_changes")
RUNNER = """
import shlex, sys
from pathlib import Path
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.launch.tasks_cli import main as tasks_main
from attnlab.launch.train_cli import train_main

for line in sys.argv[1:]:
    kind, *words = shlex.split(line)
    results = sorted(Path("experiments/runs").rglob("result.json"), key=lambda file: file.stat().st_mtime)
    words = [word.replace("<run folder>", str(results[-1].parent) if results else "no run") for word in words]
    main = {"train": train_main, "evaluate": evaluate_main, "tasks": tasks_main}[kind]
    assert main(words) == 0, line
"""
KINDS = {
    "python train.py": "train",
    "attnlab-train": "train",
    "python evaluate.py": "evaluate",
    "attnlab-evaluate": "evaluate",
    "python -m attnlab.tasks": "tasks",
}


def commands(title: str) -> list[str]:
    """The lines of the first block of a section."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    block = re.search(r"^```\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)[1]
    return [re.split(r"\s+#", line)[0] for line in block.splitlines()]


def lines_of(title: str, kinds: dict[str, str] = KINDS) -> list[str]:
    """The commands of a section that attnlab answers, in the words of `RUNNER`, with small runs."""
    collected = []
    for line in commands(title):
        start = next((start for start in kinds if line.startswith(f"{start} ")), None)
        if start is not None:
            kind, words = kinds[start], line.removeprefix(start).replace("run=<run folder>", "'run=<run folder>'")
            more = [word for word in SMALL.split() if word not in words] if kind == "train" else []
            collected.append(" ".join([kind, words, *more]))
    return list(dict.fromkeys(collected))


def shell(title: str, folder: Path) -> None:
    """Runs the commands of a section that copy files."""
    for line in commands(title):
        if line.startswith("cp "):
            subprocess.run(["bash", "-c", line], cwd=folder, check=True)


def run(folder: Path, *line: str, **variables: str) -> str:
    """Runs Python in a folder with the package that lies there, or else with this one."""
    env = {**environment(), "PYTHONPATH": str(folder / "src"), **variables}
    command = [sys.executable, *line]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this repository with the example files of an attention and of a task in their places."""
    folder = tmp_path_factory.mktemp("clone")
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("src", "conf", "examples", "tests/support", "tests/reference"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for file in (ROOT / "pyproject.toml", ROOT / "tests/conftest.py", *ROOT.glob("tests/laws/test_laws_*.py")):
        (copy := folder / file.relative_to(ROOT)).parent.mkdir(exist_ok=True)
        shutil.copy(file, copy)
    shell("An attention", folder)
    shell("A task", folder)
    return folder


def test_the_page_shows_the_files_of_the_examples() -> None:
    files = [file for file in (ROOT / "examples").glob("*/**/*") if file.suffix in (".py", ".yaml")]
    shown = re.findall(r"^```(?:python|yaml)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert len(shown) == 16
    assert set(shown) == {file.read_text() for file in files if file.name != "__init__.py"}


@pytest.mark.slow
def test_an_attention_and_a_task_in_the_repository(clone: Path) -> None:
    """Trained, decoded greedily, evaluated on longer words."""
    out = run(clone, "-c", RUNNER, *lines_of("An attention"), *lines_of("A task"))
    assert "scan / cosine / seed 0" in out and "test/ood/sequence_accuracy" in out
    assert "input   feccaaab" in out and "reverse.Reverse, version 1" in out


@pytest.mark.slow
def test_the_laws_of_one_model(clone: Path) -> None:
    """Some of them, and a wrong name; all of them in the slow test."""
    assert "make laws MODEL=cosine" in commands("An attention")
    out = run(clone, "-m", "pytest", "--model=cosine", *QUICK)
    assert "passed" in out and "failed" not in out
    env = {**environment(), "PYTHONPATH": str(clone / "src")}
    line = [sys.executable, "-m", "pytest", "--model=cosin"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=clone, env=env, check=False)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--model=cosin: no file conf/model/cosin.yaml; nearest: cosine;" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("reach", ["window", "None", "window + 1"])
def test_the_reach_of_a_causal_query_is_what_the_class_declares(clone: Path, reach: str) -> None:
    file = clone / "src/attnlab/attention/local.py"
    declared = file.read_text()
    file.write_text(declared.replace("= self.causal_reach = window", f"= window\n        self.causal_reach = {reach}"))
    line, env = ("-m", "pytest", "--model=local", "-k", "gradients_reach"), environment()
    done = subprocess.run([sys.executable, *line], cwd=clone, env={**env, "PYTHONPATH": "src"}, check=False)
    file.write_text(declared)
    assert (done.returncode == pytest.ExitCode.OK) == (reach == "window")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "laws"), [("cosine", "slow or not slow"), ("local", "not slow"), ("hedgehog", "not slow")]
)
def test_all_laws_of_the_examples(clone: Path, model: str, laws: str) -> None:
    out = run(clone, "-m", "pytest", f"--model={model}", "-m", laws)
    assert "passed" in out and "skipped" not in out


@pytest.mark.slow
def test_a_package_outside_the_repository(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shell("A package of your own", tmp_path)
    export = next(line for line in commands("A package of your own") if line.startswith("export "))
    variables = dict(word.split("=") for word in export.split()[1:])
    variables["PYTHONPATH"] += f":{ROOT / 'src'}"
    out = run(tmp_path / "my_work", "-c", RUNNER, *lines_of("A package of your own"), **variables)
    assert "majority / my_cosine / seed 0" in out and "test/ood/accuracy" in out
