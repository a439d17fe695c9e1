"""Sweeps on a real Ray, two nodes on this machine: the numbers of one process, whatever happens to their runs."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import (
    BRIEF_SCAN,
    folder_of,
    run_command,
    settings,
    start_command,
    wait_for_step,
)

from attnlab.learn.devices.usable_cores import usable_cores

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install -e '.[ray]'"),
]

SHORT = (*BRIEF_SCAN, "train.max_steps=20")
LONG = (*BRIEF_SCAN, "train.max_steps=2500", "train.checkpoint_every=100", "backbone.dropout=0.1")
EARLY = 150
"""a step that the second run reaches long before the end of the first, also on a busy machine"""
ON_RAY = ("hydra/launcher=ray",)


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster of two nodes with a core each; the second one can be removed."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 100 * 2**20}
    started = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    started.second = started.add_node(**node)
    yield started
    started.shutdown()


def at(cluster: Any) -> tuple[str, ...]:
    return (*ON_RAY, f"hydra.launcher.address={cluster.address}")


def sweep(folder: Path, *words: str) -> tuple[str, ...]:
    return ("-m", "model=linear", *settings(folder, *words))


def seed_folder(folder: Path, words: Sequence[str], seed: int) -> Path:
    return folder_of(folder, *words, "model=linear", f"seed={seed}")


def status(folder: Path) -> dict[str, Any]:
    """Content of status.json."""
    content: dict[str, Any] = json.loads((folder / "status.json").read_text())
    return content


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same long runs in one process, without Ray."""
    folder = Path(tmp_path_factory.mktemp("plain"))
    done = run_command("train.py", *sweep(folder, *LONG, "seed=0,1", "hydra/launcher=basic"))
    assert done.returncode == 0, done.stderr
    return folder


def assert_same_runs(first: Path, second: Path) -> None:
    for seed in (0, 1):
        runs = [seed_folder(folder, LONG, seed) for folder in (first, second)]
        assert (runs[0] / "metrics.csv").read_text() == (runs[1] / "metrics.csv").read_text()
        weights = [torch.load(run / "last.ckpt", weights_only=True)["state_dict"] for run in runs]
        assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())


def ended(process: subprocess.Popen[str], seconds: float = 200) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def test_a_sweep_over_two_nodes_with_a_failing_run(cluster: Any, tmp_path: Path) -> None:
    words = (*SHORT, "seed=range(0,4)", *at(cluster))
    in_the_way = seed_folder(tmp_path, SHORT, 1)
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("in the way of a run folder")
    first = run_command("train.py", *sweep(tmp_path, *words))
    assert first.returncode == 1, first.stderr
    assert "failed: [2/4] seed=1, on " in first.stderr and "cannot create the run folder" in first.stderr
    assert all(f"[{number}/4] finished\n" in first.stderr for number in (1, 3, 4))
    assert "3 finished, 1 not" in first.stdout and "ray" not in first.stderr.lower()
    in_the_way.unlink()
    second = run_command("train.py", *sweep(tmp_path, *words))
    assert second.returncode == 0, second.stderr
    assert second.stderr.count("finished before") == 3 and "[2/4] seed=1, on " in second.stderr
    commands = [
        json.loads((seed_folder(tmp_path, SHORT, seed) / "result.json").read_text())["command"] for seed in (0, 1)
    ]
    assert all(" -m model=linear " in command and "hydra/launcher=ray" in command for command in commands)


def test_a_run_whose_process_is_killed_goes_on(cluster: Any, plain: Path, tmp_path: Path) -> None:
    process = start_command("train.py", *sweep(tmp_path, *LONG, "seed=0,1", *at(cluster)))
    folders = [seed_folder(tmp_path, LONG, seed) for seed in (0, 1)]
    for folder in folders:
        wait_for_step(folder / "metrics.csv", EARLY, process)
    os.kill(status(folders[0])["pid"], signal.SIGKILL)
    os.kill(status(folders[1])["pid"], signal.SIGTERM)
    code, _, err = ended(process)
    assert code == 0, err
    assert "[1/2] seed=0: its process was lost (WorkerCrashedError" in err
    assert "[2/2] seed=1: stopped on its machine by SIGTERM; it is begun again" in err
    assert_same_runs(tmp_path, plain)


def test_a_run_whose_machine_is_lost_goes_on_on_another(cluster: Any, plain: Path, tmp_path: Path) -> None:
    process = start_command("train.py", *sweep(tmp_path, *LONG, "seed=0,1", *at(cluster)))
    folders = [seed_folder(tmp_path, LONG, seed) for seed in (0, 1)]
    for folder in folders:
        wait_for_step(folder / "metrics.csv", EARLY, process)
    cluster.remove_node(cluster.second, allow_graceful=False)
    code, _, err = ended(process)
    assert code == 0, err
    assert err.count("it is begun again and goes on from its last checkpoint") == 1, err
    assert_same_runs(tmp_path, plain)


@pytest.mark.skipif(usable_cores() < 2, reason="one core: runs go one after the other")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_every_run(signum: signal.Signals, plain: Path, tmp_path: Path) -> None:
    """A terminal sends them to all processes of the group, those of the local cluster included."""
    long = [*(word for word in LONG if "checkpoint_every" not in word), "train.checkpoint_every=100000"]
    words = (*long, *ON_RAY, f"hydra.launcher.num_cpus={usable_cores() // 2}")
    process = start_command("train.py", *sweep(tmp_path, *words, "seed=0,1,2,3"))
    folders = [seed_folder(tmp_path, LONG, seed) for seed in (0, 1)]
    for folder in folders:
        wait_for_step(folder / "metrics.csv", EARLY, process)
    if signum == signal.SIGTERM:
        process.send_signal(signum)
    else:
        os.killpg(process.pid, signum)
    code, _, err = ended(process)
    assert code == 128 + signum, err
    assert not seed_folder(tmp_path, LONG, 3).exists(), err
    for folder in folders:
        assert (
            status(folder)["state"] == "stopped" and status(folder)["step"] >= EARLY and (folder / "last.ckpt").exists()
        )
    again = run_command("train.py", *sweep(tmp_path, *words, "seed=0,1"))
    assert again.returncode == 0, again.stderr
    assert_same_runs(tmp_path, plain)


@pytest.mark.parametrize("local", [True, False])
def test_a_repeated_command_goes_on_after_a_kill(
    local: bool, request: pytest.FixtureRequest, plain: Path, tmp_path: Path
) -> None:
    words = (*LONG, "seed=0,1", *(ON_RAY if local else at(request.getfixturevalue("cluster"))))
    process = start_command("train.py", *sweep(tmp_path, *words))
    folders = [seed_folder(tmp_path, LONG, seed) for seed in (0, 1)]
    for folder in folders:
        wait_for_step(folder / "metrics.csv", EARLY, process)
    process.kill()
    process.communicate()
    again = run_command("train.py", *sweep(tmp_path, *words))
    assert again.returncode == 0, again.stderr
    assert_same_runs(tmp_path, plain)


def test_a_local_cluster_ends_with_the_command(tmp_path: Path) -> None:
    """A run of two processes asks for two cores."""
    words = (*SHORT, "trainer.devices=2", "seed=0,1")
    env_vars = '+hydra.launcher.runtime_env={env_vars:{OMP_DISPLAY_ENV:"true"}}'
    process = start_command("train.py", *sweep(tmp_path, *words, *ON_RAY, env_vars))
    code, _, err = ended(process)
    assert code == 0, err
    assert err.count("] finished\n") == 2
    assert "OPENMP DISPLAY ENVIRONMENT BEGIN" in err, "what a library writes reaches the terminal too"
    left = subprocess.run(["pgrep", "-s", str(process.pid)], capture_output=True, text=True, check=False)
    assert not left.stdout, left.stdout
    refused = run_command("train.py", *sweep(tmp_path, *SHORT, "seed=5,6", *ON_RAY, "hydra.launcher.num_cpus=999"))
    assert refused.returncode == 1
    message = "a run asks for 999 CPU, and no machine of Ray has that"
    assert message in refused.stderr and len(refused.stderr.strip().splitlines()) == 1, refused.stderr
