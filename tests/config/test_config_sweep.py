"""Sweeps: the same checked jobs in the same order as Hydra's sweeper."""

import itertools
import shutil
from pathlib import Path

import pytest
from support.small_runs import jobs_of

from attnlab.config import sweep
from attnlab.config.compose import compose_with_hydra
from attnlab.config.fill_defaults import completed
from attnlab.config.job_config import compose_config
from attnlab.config.problem import ConfigError
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import check_command

SWEEP = """# @package _global_
defaults:
  - override /task: scan
  - override /model: vanilla
hydra:
  mode: MULTIRUN
  sweeper:
    params:
      model: vanilla,linear
      seed: range(0,3)
train: {max_steps: 10}
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """The shipped configuration with an experiment that is a sweep."""
    folder = tmp_path / "conf"
    shutil.copytree(CONF, folder)
    (folder / "experiment" / "paper").mkdir()
    (folder / "experiment" / "paper" / "table.yaml").write_text(SWEEP)
    return folder


def cells(*argv: str, conf: Path = CONF) -> list[tuple[str, int]]:
    command = check_command(argv, conf)
    assert command.multirun
    return [(job.typed.model.name, job.typed.seed) for job in command.jobs]


def test_jobs_come_in_hydras_order() -> None:
    expected = list(itertools.product(["linear", "vanilla"], [0, 1, 2]))
    assert cells("-m", "model=linear,vanilla", "seed=range(0,3)") == expected
    assert cells("-m", "model=choice(linear,vanilla)", "seed=0,1,2") == expected
    assert cells("--multirun", "seed=0,1,2", "model=vanilla") == [("vanilla", seed) for seed in range(3)]


def test_globs_choose_groups() -> None:
    assert cells("-m", "model=glob(linear_l*)")[0] == ("linear_l1", 0)
    assert cells("-m", "model=glob(linear*,exclude=linear_*)") == [("linear", 0)]


def test_what_a_glob_chooses_is_spelled_out_for_hydra(conf: Path) -> None:
    """Hydra's own globs match `_base` and no choice in a subfolder."""
    both = "model=qin2022/linear_then_vanilla,qin2022/vanilla_then_linear"
    assert check_command(["-m", "model=glob(*then*)", "seed=0,1"]).hydra_argv[-1] == both
    file = conf / "experiment" / "paper" / "table.yaml"
    file.write_text(SWEEP.replace("vanilla,linear", "glob(*then*)"))
    assert check_command(["experiment=paper/table"], conf).hydra_argv[-1] == both
    assert check_command(["seed=3", "-m", "from_run=a b"]).hydra_argv == ["--multirun", "seed=3", "from_run='a b'"]


def test_jobs_are_what_hydra_composes() -> None:
    command = check_command(["-m", "backbone.dropout=0.0,0.2", "seed=1,2", "optim.betas=[0.9,0.98]"])
    singles = [
        completed(compose_config([f"backbone.dropout={dropout}", f"seed={seed}", "optim.betas=[0.9,0.98]"]))
        for dropout in (0.0, 0.2)
        for seed in (1, 2)
    ]
    assert [job.raw for job in command.jobs] == singles
    assert command.jobs[2].raw["backbone"]["attention_dropout"] == 0.2


def test_an_experiment_is_a_sweep_of_its_own(conf: Path) -> None:
    product = list(itertools.product(["vanilla", "linear"], [0, 1, 2]))
    assert cells("experiment=paper/table", conf=conf) == product
    # A key given on the command line replaces the experiment's, without repeats.
    assert cells("experiment=paper/table", "seed=7", conf=conf) == [("vanilla", 7), ("linear", 7)]
    assert cells("experiment=paper/table", "seed=7,8", "model=linear_l2", conf=conf) == [
        ("linear_l2", 7),
        ("linear_l2", 8),
    ]
    assert len(cells("experiment=paper/table", "optim.lr=1e-3,1e-4", conf=conf)) == 12
    assert all(job["train"]["max_steps"] == 10 for job in jobs_of(["experiment=paper/table"], conf))
    assert not check_command(["experiment=paper/table", "hydra.mode=RUN"], conf).multirun
    assert not check_command(["experiment=paper/table", "--cfg", "job"], conf).multirun


def test_hydras_settings_come_beside_the_configuration(conf: Path) -> None:
    config, settings = compose_with_hydra(["experiment=paper/table"], conf)
    assert "hydra" not in config
    params = {"model": "vanilla,linear", "seed": "range(0,3)"}
    assert settings.pop("sweeper")["name"] == "basic"
    assert settings.pop("choices")["experiment"] == "paper/table"
    target = "attnlab.launch.local_processes.Processes"
    launcher = {"_name_": "auto", "n_jobs": None, "_target_": target}
    assert settings == {"mode": "MULTIRUN", "params": params, "launcher": launcher}


def test_a_launcher_that_is_named_is_taken(conf: Path) -> None:
    file = conf / "experiment" / "paper" / "table.yaml"
    for name in ("basic", "joblib"):
        file.write_text(SWEEP.replace("vanilla\n", f"vanilla\n  - override /hydra/launcher: {name}\n", 1))
        assert check_command(["experiment=paper/table"], conf).launcher["_name_"] == name
    assert check_command(["experiment=paper/table", "hydra/launcher=basic"], conf).launcher["_name_"] == "basic"
    number = check_command(["-m", "seed=0,1", "hydra.launcher.n_jobs=3"]).launcher
    assert (number["_name_"], number["n_jobs"]) == ("joblib", 3)


def test_experiments_with_sweeps_are_not_swept_over(conf: Path) -> None:
    with pytest.raises(ConfigError, match="experiment=paper/table: has a sweep of its own"):
        check_command(["-m", "experiment=quickstart,paper/table"], conf)


def test_an_experiment_that_inherits_a_sweep_has_one(conf: Path) -> None:
    small = "# @package _global_\ndefaults: [/experiment/paper/table]\nbackbone: {d_model: 64}\n"
    (conf / "experiment" / "paper" / "table_small.yaml").write_text(small)
    assert cells("experiment=paper/table_small", conf=conf) == cells("experiment=paper/table", conf=conf)
    assert {job["backbone"]["d_model"] for job in jobs_of(["experiment=paper/table_small"], conf)} == {64}
    with pytest.raises(ConfigError, match="experiment=paper/table_small: has a sweep of its own"):
        check_command(["-m", "experiment=quickstart,paper/table_small"], conf)


def test_a_width_that_depends_on_the_model_is_set_in_every_job(conf: Path) -> None:
    by_case = '\nbackbone: {d_feed_forward: "${choose:${model.feed_forward},{glu:85},128}"}\n'
    file = conf / "experiment" / "paper" / "table.yaml"
    file.write_text(SWEEP.replace("vanilla,linear", "vanilla,transnormer_t2") + by_case)
    jobs = jobs_of(["experiment=paper/table", "seed=0"], conf)
    assert [job["backbone"]["d_feed_forward"] for job in jobs] == [128, 85]
    jobs = jobs_of(["experiment=paper/table", "seed=0", "model.feed_forward=glu,gelu"], conf)
    assert [job["backbone"]["d_feed_forward"] for job in jobs] == [85, 128, 85, 128]


def test_a_swept_key_is_not_forced(conf: Path) -> None:
    with pytest.raises(ConfigError, match=r"\+\+seed=7: swept by the experiment; write seed=7"):
        check_command(["experiment=paper/table", "++seed=7"], conf)


def test_the_nearest_experiment_is_named_with_its_folder(conf: Path) -> None:
    with pytest.raises(ConfigError, match="nearest: paper/table"):
        check_command(["experiment=table"], conf)


def test_wrong_params_of_an_experiment_are_found(conf: Path) -> None:
    file = conf / "experiment" / "paper" / "table.yaml"
    file.write_text(SWEEP.replace("vanilla,linear", "vanila,linear").replace("seed: range", "sede: range"))
    with pytest.raises(ConfigError) as error:
        check_command(["experiment=paper/table"], conf)
    assert error.value.problems[0].startswith("model=vanila: no such choice; nearest: vanilla")
    assert "sede=0: unknown key; nearest: seed" in str(error.value)


def test_a_problem_of_some_jobs_says_of_which() -> None:
    with pytest.raises(ConfigError) as error:
        check_command(["-m", "task=scan,sort_of_clevr", "backbone.tied_output=false,true", "seed=0,1"])
    (problem,) = error.value.problems
    assert problem.endswith("[2 of 8 jobs, such as task=sort_of_clevr backbone.tied_output=true seed=0]")


def test_a_big_sweep_composes_once_for_each_choice_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    composed, compose = [], sweep.compose_unresolved
    monkeypatch.setattr(sweep, "compose_unresolved", lambda *words: (composed.append(words), compose(*words))[1])
    argv = [
        "-m",
        "model=linear,vanilla",
        "seed=range(0,5)",
        "backbone.dropout=0.0,0.1",
        "optim.lr=1e-3,3e-4,1e-4,3e-5,1e-5",
    ]
    assert len(jobs_of(argv)) == 100
    # two models, and once without any, as Hydra does
    assert len(composed) == 3


def test_an_optional_group_may_be_null() -> None:
    """As `--cfg job` prints it."""
    [job] = check_command(["task=scan", "debug=null"]).jobs
    assert job.raw["debug"] is None
