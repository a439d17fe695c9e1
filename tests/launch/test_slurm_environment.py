"""Runs under Slurm: no file and no environment variable changes them."""

import shutil
from pathlib import Path

import pytest
from support.small_runs import BRIEF_SCAN, config_of, run_job

from attnlab.config.run_identity import run_folder
from attnlab.run.run_folder import MetricsFile

SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_NAME": "train",
    "SLURM_NTASKS": "2",
    "SLURM_NNODES": "1",
    "SLURM_NODEID": "0",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODELIST": "localhost",
}
"""as in a job of `sbatch --ntasks=2`"""
SMALL = (*BRIEF_SCAN, "model=linear", "train.max_steps=3")


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run outside of Slurm."""
    raw = config_of(tmp_path_factory.mktemp("elsewhere"), *SMALL)
    assert run_job(raw, quiet=True) == 0
    return run_folder(raw)


def plant(elsewhere: Path, folder: Path) -> None:
    """What Lightning's requeuing leaves behind: a checkpoint that looks newer than any."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(elsewhere / "last.ckpt", folder / "hpc_ckpt_1.ckpt")


@pytest.mark.parametrize("location", ["current folder", "run folder"])
def test_a_foreign_checkpoint_is_not_loaded(
    location: str, elsewhere: Path, tmp_path: Path, slurm: pytest.MonkeyPatch
) -> None:
    raw = config_of(tmp_path, *SMALL)
    plant(elsewhere, tmp_path / "here" if location == "current folder" else run_folder(raw))
    (tmp_path / "here").mkdir(exist_ok=True)
    slurm.chdir(tmp_path / "here")
    before = sorted(Path.cwd().iterdir())
    assert run_job(raw, quiet=True) == 0
    rows = [MetricsFile(folder / "metrics.csv").rows() for folder in (run_folder(raw), elsewhere)]
    assert rows[0] == rows[1] and rows[0][0][0] == 1
    assert sorted(Path.cwd().iterdir()) == before


def test_variables_of_lightning_change_no_run(
    elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What its Trainer is not given, it takes from PL_TRAINER_*."""
    for name, value in {"LIMIT_TRAIN_BATCHES": "2", "OVERFIT_BATCHES": "1", "FAST_DEV_RUN": "true"}.items():
        monkeypatch.setenv(f"PL_TRAINER_{name}", value)
    raw = config_of(tmp_path, *SMALL)
    assert run_job(raw, quiet=False) == 0
    assert MetricsFile(run_folder(raw) / "metrics.csv").rows() == MetricsFile(elsewhere / "metrics.csv").rows()
    printed = capsys.readouterr()
    names = "PL_TRAINER_FAST_DEV_RUN, PL_TRAINER_LIMIT_TRAIN_BATCHES, PL_TRAINER_OVERFIT_BATCHES"
    assert f"note: not used: {names}; the configuration alone decides" in printed.out + printed.err


@pytest.mark.parametrize("rank", [0, 1])
def test_several_tasks_of_a_step_are_refused_for_one_device(
    rank: int, tmp_path: Path, slurm: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`srun` starts the command once for each task; the first one says that one is enough."""
    raw = config_of(tmp_path, *SMALL)
    slurm.setenv("SLURM_STEP_NUM_TASKS", "2")
    slurm.setenv("SLURM_PROCID", str(rank))
    slurm.setenv("SLURM_LOCALID", str(rank))
    assert run_job(raw, quiet=True) == 1
    message = capsys.readouterr().err
    assert ("srun started 2 processes" in message and "--ntasks=1" in message) == (rank == 0)
    assert not run_folder(raw).exists()
