"""Searches: what they optimise, which are refused, and what each job returns."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf
from support.small_runs import SMALL_CLEVR, config_of, run_command, run_job, settings
from support.written_runs import a_run

from attnlab.config.command_line.words import Item, read_override
from attnlab.config.job_config import compose_config
from attnlab.config.message_text import command_line
from attnlab.config.problem import ConfigError
from attnlab.config.run_identity import run_folder
from attnlab.config.shipped_files import CONF
from attnlab.config.validation.search import Search, read_search, sweeper_problem
from attnlab.launch import search_jobs
from attnlab.report.runs.select_runs import select_jobs
from attnlab.run.run_folder import RunFolder, objective

OPTUNA = {"name": "optuna", "n_trials": 5, "sampler": {"seed": None}}
RATES = read_override("optim.lr=tag(log,interval(1e-4,1e-2))", CONF)
CLEVR = {"task": {"_target_": "attnlab.tasks.sort_of_clevr.task.SortOfClevr", "name": "c"}}
TEXT = {"task": {"_target_": "attnlab.tasks.wikitext.wikitext2.Wikitext2", "name": "w"}}
EPOCHS: dict[str, Any] = {"train": {"validate_every": "epoch"}}


def problems_of(*items: Item, sweeper: dict[str, Any] = OPTUNA, launcher: str = "basic", **train: Any) -> str:
    return "; ".join(read_search(sweeper, launcher, items, [CLEVR | {"train": EPOCHS["train"] | train}])[1])


def test_an_interval_has_two_ends_that_are_checked() -> None:
    assert (RATES.values, RATES.swept, RATES.interval) == ((1e-4, 1e-2), True, True)
    assert "searched with hydra/sweeper=optuna" in problems_of(RATES, sweeper={"name": "basic"})


def test_a_search_leaves_the_direction_to_the_tasks_metric() -> None:
    search, problems = read_search(OPTUNA, "basic", [RATES], [CLEVR | EPOCHS])
    assert not problems and (search.trials, search.keys) == (5, ("optim.lr",))
    assert search.words == ("hydra.sweeper.n_jobs=1", "hydra.sweeper.sampler.seed=0")
    chosen = read_override("hydra.sweeper.direction=minimize", CONF)
    assert "the task's metric says what is better; leave it out" in problems_of(RATES, chosen)


def test_what_cannot_be_searched_honestly_is_refused() -> None:
    assert "no validation set, and the test set must select nothing" in problems_of(RATES, validate_every=None)
    assert "nothing to search" in problems_of()
    for words in ("task=scan,glue", "task.validation_by=random,length", "task.length_cutoff=22,26"):
        assert "on different data are not comparable" in problems_of(read_override(words, CONF))
    assert "not among lists" in problems_of(read_override("optim.betas=[0.9,0.9],[0.8,0.8]", CONF))
    assert "runs its jobs one after the other" in problems_of(RATES, launcher="joblib")
    assert "the best of several is chance" in problems_of(read_override("seed=0,1,2", CONF))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            "interval(1e-2,1e-4)",
            "optim.lr=interval(1e-2,1e-4): 0.01 is larger than 0.0001; write the smaller end first",
        ),
        ("tag(log,interval(0,1))", "optim.lr=tag(log,interval(0,1)): a logarithmic interval begins above 0"),
    ],
)
def test_an_interval_that_holds_nothing_is_refused(words: str, problem: str) -> None:
    assert problems_of(read_override(f"optim.lr={words}", CONF)) == problem


@pytest.mark.parametrize("number", [0, -1])
def test_a_search_of_no_jobs_is_refused(number: int) -> None:
    problem = f"hydra.sweeper.n_trials={number}: expected a whole number >= 1"
    assert problems_of(RATES, sweeper=OPTUNA | {"n_trials": number}) == problem


def test_sweepers_that_are_not_there_are_named() -> None:
    text = {name: sweeper_problem(read_override(f"hydra/sweeper={name}", CONF), ["basic"]) for name in ("ax", "optun")}
    assert text["ax"].startswith("hydra/sweeper=ax: not offered") and "nearest: optuna" in text["optun"]
    missing = sweeper_problem(read_override("hydra/sweeper=optuna", CONF), ["basic"])
    assert missing == (
        "hydra/sweeper=optuna: hydra-optuna-sweeper is not installed; pip install -e '.[optuna]' brings it"
    )


@pytest.mark.parametrize("rule", ["best_validation", "last_step"])
def test_a_result_has_the_validation_of_the_weights_that_were_tested(rule: str, tmp_path: Path) -> None:
    more = ("train.max_steps=2", "train.validate_every=1", "model=linear", f"train.selection={rule}")
    paper = () if rule == "best_validation" else ("train.paper_rule=null",)
    raw = config_of(tmp_path, *SMALL_CLEVR, *more, *paper)
    assert run_job(raw, quiet=True) == 0
    folder = RunFolder(run_folder(raw))
    result = folder.result()
    rows = (folder.path / "metrics.csv").read_text().splitlines()
    assert objective(result)[0] == "val/accuracy" and result["selection"]["rule"] == rule
    assert f"{result['selection']['step']},val/accuracy,{objective(result)[1]!r}" in rows


def test_a_job_returns_its_validation_metric_and_a_failed_one_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hydra = SimpleNamespace(sweep=SimpleNamespace(dir=str(tmp_path)), job=SimpleNamespace(num=1))
    hydra.overrides = SimpleNamespace(task=["task=sort_of_clevr", "optim.lr=0.01"])
    hydra.runtime = SimpleNamespace(choices={"experiment": None})
    monkeypatch.setattr(search_jobs, "HydraConfig", SimpleNamespace(get=lambda: hydra))
    monkeypatch.setattr("sys.argv", ["train.py"])
    raw = compose_config(settings(tmp_path, "task=sort_of_clevr", "model=linear", "optim.lr=0.01"))
    selected = {"rule": "best_validation", "step": 3, "val/accuracy": 0.625}
    a_run(run_folder(raw), raw, selection=selected)
    jobs = search_jobs.SearchJobs(Search(("optim.lr",), 4, ()), ["-m"], "maximize")
    assert jobs(OmegaConf.create(raw)) == 0.625
    assert jobs(OmegaConf.create(raw | {"optim": raw["optim"] | {"lr": -1}})) is None, "optuna takes nan for a mistake"
    printed = capsys.readouterr()
    assert "[2/4] optim.lr=0.01, finished before\n[2/4] val/accuracy 62.5 %" in printed.err
    assert "optim.lr=-1: expected a number > 0" in printed.err
    assert jobs.exit_code() == 2
    printed = capsys.readouterr().out
    assert "val/accuracy 62.5 %" in printed and "best of 1: optim.lr=0.01" in printed and "99.0" not in printed
    assert f"report: {command_line('python report.py', f'runs={run_folder(raw).parent}')}\n" in printed
    other = search_jobs.SearchJobs(Search(("optim.lr",), 4, ()), ["-m"], "minimize")
    assert other(OmegaConf.create(raw)) is None and other.codes == [1]


def test_a_validation_that_is_not_finite_is_a_failed_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A language model whose training loss is finite and whose validation perplexity is not."""
    monkeypatch.setattr(search_jobs, "is_finished", lambda job: True)
    monkeypatch.setattr(search_jobs, "objective", lambda result: ("val/word_perplexity", float("nan")))
    jobs = search_jobs.SearchJobs(Search(("optim.lr",), 4, ()), ["-m"], "minimize")
    assert jobs._run(config_of(tmp_path, *SMALL_CLEVR, "model=linear"), "optim.lr=1", "[1/4]") is None
    assert jobs.codes == [1] and "[1/4] failed: its val/word_perplexity is not finite" in capsys.readouterr().err


def test_a_report_of_the_words_of_a_search_asks_for_its_folders() -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    words = ["-m", "hydra/sweeper=optuna", "task=sort_of_clevr", "model=linear", "optim.lr=interval(1e-4,1e-2)"]
    with pytest.raises(ConfigError, match="name its run folders: runs="):
        select_jobs(None, words[1:])


def test_a_search_goes_on_where_it_stopped(tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    more = ("train.max_steps=2", "train.validate_every=1", "model=linear", "hydra.sweeper.n_trials=2")
    line = ["-m", "hydra/sweeper=optuna", "optim.lr=interval(1e-4,1e-2)", *settings(tmp_path, *SMALL_CLEVR, *more)]
    for state in ("resuming", "finished before"):
        done = run_command("train.py", *line)
        assert done.returncode == 0, done.stderr
        assert "best of 2: optim.lr=" in done.stdout and (state == "resuming" or done.stderr.count(state) == 2)


@pytest.mark.parametrize("rates", ["1e30,1e-3,1e-2", "1e-3,1e-2,1e30"])
def test_a_trial_that_diverges_is_a_failed_one_and_the_search_goes_on(rates: str, tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper")
    more = ("train.max_steps=2", "train.validate_every=1", "model=linear", "hydra/sweeper/sampler=grid")
    done = run_command(
        "train.py", "-m", "hydra/sweeper=optuna", f"optim.lr={rates}", *settings(tmp_path, *SMALL_CLEVR, *more)
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "optim.lr=1e+30: failed: NonFiniteLoss" in done.stdout and "best of 2: optim.lr=" in done.stdout
