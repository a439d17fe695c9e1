"""Costs: what `--plan` says of measured and of guessed steps, and that headers and docs/costs.md say the same."""

import json
import math
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import pytorch_lightning as pl
from support.preset_costs import headings, preset_cost, presets, tables
from support.small_runs import ROOT
from support.written_runs import a_run

from attnlab.config.job_config import compose_config
from attnlab.config.run_identity import run_folder
from attnlab.launch.train_cli import train_main
from attnlab.learn import callbacks
from attnlab.learn.callbacks import Clock
from attnlab.learn.training_module import TrainingModule
from attnlab.tasks.glue.data_sets import DATA_SETS


@pytest.fixture
def planned(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("COLUMNS", "200")

    def plan(*words: str) -> str:
        capsys.readouterr()
        assert train_main([f"paths.runs={tmp_path / 'runs'}", *words, "--plan"]) == 0
        return capsys.readouterr().out

    return plan


def measured_run(tmp_path: Path, *words: str) -> None:
    """The folder of a run whose 100 steps took 10 s."""
    raw = compose_config([f"paths.runs={tmp_path / 'runs'}", *words])
    hardware = {"gpu": None, "cpu": "a CPU", "threads": 1}
    a_run(run_folder(raw), raw, status={"step": 100, "step_seconds": 0.1, "hardware": hardware})


def test_a_step_measured_at_another_length_is_no_step_of_this_one(tmp_path: Path, planned: Callable[..., str]) -> None:
    flip_flop = ("task=flip_flop", "model=linear", "train.max_steps=3600")
    measured_run(tmp_path, *flip_flop, "task.length=32")
    assert "hours: 0.1 on a CPU, threads: 1, by measured steps" in planned(*flip_flop, "task.length=32", "seed=3")
    text = planned(*flip_flop, "task.length=512")
    assert "guessed (cost.ms_a_step), not measured" in text and "a CPU" not in text
    scan = ("task=scan", "model=linear", "train.max_steps=3600")
    measured_run(tmp_path, *scan)
    assert "by measured steps" in planned(*scan, "task.data_seed=5"), "other data of the same lengths"


def test_guesses_are_called_so_and_small_numbers_of_steps_cost_little(planned: Callable[..., str]) -> None:
    linear = ("experiment=park2024/table4_scan", "model=linear")
    text = planned(*linear)
    assert "not measured: a guess for one H100-class GPU" in text and "22 to 29" in text
    assert "GPU-hours: 1.5 to 2 on one H100-class GPU, guessed (cost.ms_a_step), not measured" in text
    assert "GPU-hours: 0.01 on" in planned(*linear, "train.max_steps=300")
    assert "no hours for linear: no run" in planned("task=scan", "model=linear", "cost.ms_a_step=null")


@pytest.mark.parametrize("size", ["backbone.d_model=2048", "train.max_tokens=1000"])
def test_a_guess_holds_for_the_sizes_of_its_task_or_experiment_only(size: str, planned: Callable[..., str]) -> None:
    for words in (["task=scan", "model=linear"], ["experiment=park2024/table4_scan", "model=linear", "seed=0"]):
        text = planned(*words, size)
        assert "no hours for linear: no run of this task and these sizes" in text and "GPU-hours" not in text
        assert "GPU-hours: 2.8 to 5.6 on" in planned(*words, size, "cost.ms_a_step=[200,400]")
        assert "22 to 29" in planned(*words, "backbone.d_model=128"), "the value that it has anyway"


def test_a_guess_holds_for_its_task_and_hardware_only(planned: Callable[..., str]) -> None:
    assert "no hours for linear" in planned("experiment=park2024/table4_scan_small", "task=pcfg", "model=linear")
    assert "no hours for linear" in planned("task=flip_flop", "model=linear", "task.length=16384")
    for words in (["task=scan", "trainer=cpu"], ["experiment=quickstart", "trainer.device=cuda"], ["debug=smoke"]):
        assert "no hours for" in planned(*words), words


@pytest.mark.slow
def test_several_experiments_add_up_and_share_runs(planned: Callable[..., str]) -> None:
    text = planned("experiment=park2024/table1_instability,park2024/figure2_norms,park2024/table4_scan", "seed=0")
    assert text.startswith("11 runs, 0 finished; 11 to train\n")
    assert "nothing left of park2024/figure2_norms: finished, or of an experiment named before" in text
    (total,) = re.findall(r"^GPU-hours: (\S+) to (\S+) on", text, re.MULTILINE)
    assert total == ("4.8", "7.7"), "two runs of 459,300 steps at 8 to 16 ms and nine of 50,000 at 22 to 29 ms"
    assert "park2024/table7_pcfg" in planned("experiment=park2024/table[47]*", "seed=0", "model=linear")


def test_runs_are_planned_before_the_ones_that_they_begin_with(planned: Callable[..., str]) -> None:
    text = planned("experiment=qin2022/table5_glue", "model=vanilla", "optim.lr=1e-5", "task.dataset=mrpc")
    assert "345" in text and "guessed" in text


def test_steps_of_epochs_follow_the_examples_and_batches(planned: Callable[..., str]) -> None:
    assert " 1,216 " in planned("task=mqar", "task.train_examples=10000"), "64 epochs of 19 batches of 512"
    assert " 390 " in planned("task=mqar", "train.max_epochs=2")
    assert " 20,000 " in planned("task=mad")
    assert "their steps are known after the data is read" in planned("task=mad", "train.max_epochs=2")


def test_hypotheses_on_few_seeds_are_planned_without_verdicts(planned: Callable[..., str]) -> None:
    line = "hypotheses get no verdict: a test needs 5 seeds, declared: "
    assert f"{line}3\n" in planned("experiment=kazemnejad2023/positions", "model=vanilla", "task.dataset=copy")
    assert f"{line}4\n" in planned("experiment=kazemnejad2023/positions", "model=vanilla", "seed=7")
    assert line not in planned("experiment=claims/positions", "model=vanilla", "task.dataset=copy", "seed=1")
    both = "experiment=kazemnejad2023/positions,claims/positions"
    assert f"\nkazemnejad2023/positions: {line}3\n" in planned(both, "model=vanilla", "task.dataset=copy")


def test_a_plan_says_what_each_hypothesis_can_show(planned: Callable[..., str]) -> None:
    """Of ten seeds and three hypotheses; the preset's own are on failures."""
    words = ["experiment=claims/stability_scan", "model=linear"]
    text = planned(*words)
    assert "in val: 0 failures in 10 runs show it from 6 failures of linear, 0.048 on\n" in text
    mine, other = ("row: 'linear, 0.006'", "'linear, 0.048'")
    claims = [f"{{{mine},than:{other},column:val,spread:2.5}}", f"{{{mine},than:{other},column:val}}"]
    claims += [f"{{{mine},varies_less_than:{other},column:val}}"]
    text = planned(*words, f"report.hypotheses=[{','.join(claims)}]")
    assert "in val: at a spread of 2.5, 10 seeds show a difference of 3.1 with 80 % power\n" in text
    assert "in val: spread not declared\n" in text
    assert "in val: 10 runs a row show a ratio of standard deviations of 7" in text


def test_a_plan_counts_the_hypotheses_that_runs_were_begun_under(tmp_path: Path, planned: Callable[..., str]) -> None:
    """As the report will: the three of the preset, and the own one."""
    words = ["experiment=claims/stability_scan", "model=linear"]
    mine = "report.hypotheses=[{row: 'linear, 0.006',than: 'linear, 0.048',column:val,spread:2.5}]"
    assert "10 seeds show a difference of 2.5 with" in planned(*words, mine), "one test"
    raw = compose_config([f"paths.runs={tmp_path / 'runs'}", *words, "optim.lr=0.006", "seed=1"])
    a_run(run_folder(raw), raw, status={"declared": [{"analysis": raw["report"], "step": 0, "git": {}}]})
    assert "10 seeds show a difference of 3.2 with" in planned(*words, mine), "four tests"


def test_steps_of_glue_are_three_epochs_of_its_official_sizes() -> None:
    for name, data_set in DATA_SETS.items():
        steps = compose_config(["task=glue", f"task.dataset={name}"])["cost"]["steps_of_epochs"]
        assert steps == 3 * math.ceil(data_set.sizes["train"] / 32), name


@pytest.mark.xdist_group("presets")
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_presets_have_runs_and_hours_and_their_headers_say_them(every: int) -> None:
    wrong = {}
    for name in presets()[::every]:
        cost, text = preset_cost(name), headings(name)["Cost"]
        unit = "GPU-hours" if "GPU" in cost.hardware else "hours on one thread"
        if f"{cost.runs} runs" not in text or f"; {cost.span} {unit}" not in text:
            wrong[name] = f"{cost.runs} runs ...; {cost.span} {unit}"
    assert not wrong


def archived_hours(claim: Path) -> tuple[float, int]:
    """Hours of training of all runs in the archives of a claim, and how many these are."""
    seconds = []
    for file in sorted(claim.glob("seed*.tar.xz")):
        with tarfile.open(file) as archive:
            results = (archive.extractfile(member) for member in archive if member.name.endswith("/result.json"))
            seconds += [json.load(result)["seconds"] for result in results if result is not None]
    return sum(seconds) / 3600, len(seconds)


def test_headers_of_claims_say_what_their_runs_took_where_the_guess_was_wrong() -> None:
    wrong = {}
    # a withdrawn claim has the archive of its pilot alone
    for folder in sorted({archive.parent for archive in (ROOT / "experiments/measured/claims").glob("*/seed*")}):
        text, (measured, runs) = headings(f"claims/{folder.name}")["Cost"], archived_hours(folder)
        if runs < int(text.split()[0]):
            continue
        guess = re.search(r"; (\S+) to (\S+) hours on one thread", text)
        assert guess, folder.name
        right = float(guess[1]) <= measured <= float(guess[2])
        said = re.search(r" on one thread(?:, guessed; measured: (\S+))?$", text)
        if not said or said[1] != (None if right else f"{measured:.2g}"):
            wrong[folder.name] = (text, f"{measured:.2g}")
    assert not wrong


@pytest.mark.slow
@pytest.mark.xdist_group("presets")
@pytest.mark.parametrize("number", [0, 1])
def test_the_page_of_costs_has_every_preset(number: int) -> None:
    """Where it fails: `PYTHONPATH=src:tests python -m support.preset_costs` prints the tables."""
    assert [*tables()][number] in (ROOT / "docs" / "costs.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("names", ["park2024/*", "qin2022/*"])
def test_the_page_of_costs_has_the_sums_of_plans(names: str, planned: Callable[..., str]) -> None:
    text = planned(f"experiment={names}")
    runs, hours = re.match(r"(\S+) runs", text), re.search(r"^GPU-hours: (.*) on one", text, re.MULTILINE)
    assert runs and hours
    assert f"| `{names}` | {runs[1]} | {hours[1]} |" in (ROOT / "docs" / "costs.md").read_text()


def test_a_step_is_timed_without_the_first_ones_and_without_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 1 s and, after each, a validation of 10 s; stopped after 30 steps and resumed for 25 more."""
    now = [0.0]
    monkeypatch.setattr(callbacks.time, "monotonic", lambda: now[0])

    def wait(seconds: float) -> dict[str, float]:
        now[0] += seconds
        return {}

    state, trainer, module = None, MagicMock(pl.Trainer, global_step=0), MagicMock(TrainingModule)
    for steps in (30, 25):
        clock = Clock()
        validate = clock.timed(lambda: wait(10.0))
        if state is not None:
            clock.load_state_dict(state)
        clock.on_train_start(trainer, module)
        for _ in range(steps):
            wait(1.0)
            trainer.global_step += 1
            clock.on_train_batch_end(trainer, module)
            validate()
        state = clock.state_dict()
    assert state == {"seconds": 55 * 11, "settled": [15, 15.0]}
