"""A sweep continues after a failed job, ends with a table, and repeats only missing runs."""

import json
from pathlib import Path

from support.small_runs import SMALL_SCAN, checked, config_of, folder_of, run_command, run_job, settings

from attnlab.config.job_config import job_config
from attnlab.learn.stop_signals import StopRequest
from attnlab.run.build_runtime import prepare, prepared_task
from attnlab.run.train_run import train_run

SWEEP = (*SMALL_SCAN, "train.max_steps=2", "train.checkpoint_every=1")
AXES = ("model=linear,vanilla", "seed=0,1", "model.ortho.weight=0")


def test_a_failed_job_does_not_stop_the_others(tmp_path: Path) -> None:
    failing = folder_of(tmp_path, *SWEEP, "model=linear", "seed=1")
    failing.parent.mkdir(parents=True)
    failing.write_text("in the way of a run folder")
    first = run_command("train.py", "-m", *AXES, *settings(tmp_path, *SWEEP))
    assert first.returncode == 1, first.stderr
    assert "cannot create the run folder" in first.stderr
    assert "3 finished, 1 not" in first.stdout
    finished = [
        folder_of(tmp_path, *SWEEP, f"model={model}", f"seed={seed}")
        for model, seed in (("linear", 0), ("vanilla", 0), ("vanilla", 1))
    ]
    written = {folder: (folder / "result.json").stat().st_mtime_ns for folder in finished}
    files = {".lock", "config.yaml", "metrics.csv", "status.json", "result.json", "last.ckpt"}
    assert {path.name for path in finished[0].iterdir()} == files, "Hydra writes nothing into run folders"

    failing.unlink()
    second = run_command("train.py", "-m", *AXES, *settings(tmp_path, *SWEEP))
    assert second.returncode == 0, second.stderr
    assert "4 runs" in second.stdout and "finished" in second.stdout
    assert json.loads((failing / "status.json").read_text())["state"] == "finished"
    assert written == {folder: (folder / "result.json").stat().st_mtime_ns for folder in finished}


def test_a_refused_job_is_not_called_finished(tmp_path: Path) -> None:
    assert run_job(config_of(tmp_path, *SWEEP, "model=linear"), quiet=True) == 0
    config = folder_of(tmp_path, *SWEEP, "model=linear") / "config.yaml"
    config.write_text(config.read_text().replace("clip_norm: 5.0", "clip_norm: 4.0"))
    done = run_command("train.py", "-m", "seed=0,1", *settings(tmp_path, *SWEEP, "model=linear"))
    assert done.returncode == 1
    assert "refused" in done.stdout and "1 finished, 1 not" in done.stdout


def test_jobs_on_the_same_data_share_it_and_leave_it_as_it_was(tmp_path: Path) -> None:
    raw = config_of(tmp_path, *SMALL_SCAN, "train.max_steps=2")
    shared = prepared_task(checked(raw))
    result, _ = train_run(job_config(raw), StopRequest())
    assert prepared_task(checked(config_of(tmp_path, *SMALL_SCAN, "model=linear", "seed=1"))) is shared
    anew = prepare(shared[0], checked(raw).paths)
    assert shared[1].data_hash() == anew.data_hash() == result["data"]["hash"]
    shorter = [word for word in SMALL_SCAN if "length_cutoff" not in word] + ["task.length_cutoff=36"]
    other = prepared_task(checked(config_of(tmp_path, *shorter)))
    assert other[1].data_hash() != anew.data_hash()
    assert prepared_task(checked(raw)) is not shared
