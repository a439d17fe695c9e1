"""The same six runs by every engine: equal bit for bit."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from support.small_runs import BRIEF_SCAN, folder_of, run_command, settings

pytestmark = pytest.mark.slow

RUNS = (*BRIEF_SCAN, "train.max_steps=30", "backbone.dropout=0.1")
MODELS, SEEDS = ("linear_l2_ortho", "vanilla"), (0, 1, 2)
NO_RAY = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install -e '.[ray]'")
ENGINES = [
    pytest.param("hydra/launcher=joblib hydra.launcher.n_jobs=2", id="processes"),
    pytest.param("hydra/launcher=submitit_slurm", id="slurm"),
    pytest.param("hydra/launcher=submitit_slurm hydra.launcher.runs_per_task=2", id="slurm, two runs a task"),
    pytest.param("hydra/launcher=ray", id="ray", marks=NO_RAY),
]


def run_all(folder: Path, launcher: str) -> list[Path]:
    """The run folders of the sweep, by model and seed."""
    words = settings(folder, *RUNS, f"model={','.join(MODELS)}", f"seed={','.join(map(str, SEEDS))}")
    done = run_command("train.py", "-m", *words, *launcher.split(), timeout=400)
    assert done.returncode == 0, done.stderr
    return [folder_of(folder, *RUNS, f"model={model}", f"seed={seed}") for model in MODELS for seed in SEEDS]


@pytest.fixture(scope="module")
def one_after_the_other(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return run_all(tmp_path_factory.mktemp("basic"), "hydra/launcher=basic")


@pytest.mark.parametrize("launcher", ENGINES)
def test_an_engine_changes_no_number(
    launcher: str, one_after_the_other: list[Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "slurm" in launcher:
        request.getfixturevalue("slurm")
    for plain, run in zip(one_after_the_other, run_all(tmp_path, launcher), strict=True):
        assert (plain / "metrics.csv").read_bytes() == (run / "metrics.csv").read_bytes(), run
        weights = [torch.load(folder / "last.ckpt", weights_only=True)["state_dict"] for folder in (plain, run)]
        assert weights[0].keys() == weights[1].keys()
        assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items()), run
