"""Sweeps in the queue of a real Slurm: the numbers of one process, whatever happens to their jobs.

The time limit of a job is tested with its real signal, which Slurm may send up to a minute early.
"""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.small_runs import ROOT, SMALL_SCAN, folder_of, run_command, settings, start_command, wait_for_step

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("slurm")]

SHORT = (*SMALL_SCAN, "train.max_steps=20")
UNSAVED = (*SMALL_SCAN, "train.checkpoint_every=100000")
LONG = (*UNSAVED, "train.max_steps=1500")
LONGER = (*UNSAVED, "train.max_steps=4000")
ON_SLURM = ("hydra/launcher=submitit_slurm",)


def sweep(folder: Path, *words: str) -> tuple[str, ...]:
    return ("-m", *settings(folder, *words))


def records(folder: Path, models: Sequence[str], seeds: Sequence[int], words: Sequence[str]) -> list[str]:
    """metrics.csv of every run, and the metrics of its result."""
    collected = []
    for model in models:
        for seed in seeds:
            run = folder_of(folder, *words, f"model={model}", f"seed={seed}")
            result = json.loads((run / "result.json").read_text())
            collected.append((run / "metrics.csv").read_text() + json.dumps(result["metrics"]))
    return collected


def held() -> list[list[str]]:
    """Id, state and number of restarts of the jobs of the main partition that Slurm holds."""
    wanted = "--Format=JobArrayID:20,State:20,RestartCnt:10"
    done = subprocess.check_output(["squeue", "--noheader", "--array", "--partition=main", wanted], text=True)
    return [line.split() for line in done.splitlines()]


def _ids() -> list[str]:
    """Numbers of the jobs that run, also of tasks of arrays, by which Slurm's own processes name them."""
    wanted = ["squeue", "--noheader", "--partition=main", "--states=RUNNING", "--format=%A"]
    return subprocess.check_output(wanted, text=True).split()


def until_all_run_again(process: subprocess.Popen[str], seconds: float = 120) -> None:
    """Wait until every job has been put back into the queue and runs."""
    deadline = time.monotonic() + seconds
    while not (jobs := held()) or not all(state == "RUNNING" and int(restarts) for _, state, restarts in jobs):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, held()
        time.sleep(0.2)


def end(process: subprocess.Popen[str], seconds: float = 400) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


def test_single_jobs_in_arrays_a_failing_one_and_the_rest(tmp_path: Path) -> None:
    words = ("model=linear", "seed=range(0,4)", *SHORT)
    in_the_way = folder_of(tmp_path, *SHORT, "model=linear", "seed=1")
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("in the way of a run folder")
    refused = run_command("train.py", *sweep(tmp_path, *words, *ON_SLURM))
    assert refused.returncode == 1 and "failed: [2/4] seed=1\n  cannot create the run folder" in refused.stderr
    assert "submitted: 3 runs as attnlab-scan-linear, job" in refused.stderr
    in_the_way.unlink()
    first = run_command("train.py", *sweep(tmp_path, *words, *ON_SLURM))
    assert first.returncode == 0, first.stderr
    assert "submitted: 1 run as attnlab-scan-linear, job" in first.stderr

    broken = run_command("train.py", *sweep(tmp_path, *words, *ON_SLURM, "optim.lr=1e30"))
    assert broken.returncode == 1 and "failed: NonFiniteLoss" in broken.stdout
    assert re.findall(r"submitted: (\d runs?) as", broken.stderr) == ["3 runs", "1 run"], (
        "an array has three tasks here"
    )
    assert re.search(r"\[2/4\] seed=1: job \d+_1 is FAILED; failed: NonFiniteLoss.*; log: .+_log\.out", broken.stderr)

    again = run_command("train.py", *sweep(tmp_path, *words, *ON_SLURM))
    assert again.returncode == 0 and again.stderr.count("finished before") == 4
    assert "submitted" not in again.stderr

    here = run_command("train.py", *sweep(tmp_path / "here", *words, "hydra/launcher=basic"))
    assert here.returncode == 0
    runs = [records(folder, ["linear"], range(4), SHORT) for folder in (tmp_path, tmp_path / "here")]
    assert runs[0] == runs[1]


def test_preempted_and_cancelled_jobs_end_with_the_numbers_of_one_process(tmp_path: Path) -> None:
    words = ("model=linear,vanilla", "seed=0", *LONGER)
    process = start_command("train.py", *sweep(tmp_path, *words, *ON_SLURM))
    metrics = [
        folder_of(tmp_path, *LONGER, f"model={model}", "seed=0") / "metrics.csv" for model in ("linear", "vanilla")
    ]
    for file in metrics:
        wait_for_step(file, 100, process)
    subprocess.run(
        ["sbatch", "--output=/dev/null", "--partition=urgent", f"--ntasks={os.cpu_count()}", "--wrap=sleep 1"],
        check=True,
    )
    until_all_run_again(process)
    subprocess.run(["scancel", held()[0][0]], check=True)
    code, out, err = end(process)
    assert code == 1 and "stopped: stopped by SIGTERM" in out and " is CANCELLED; stopped: " in err, err
    assert err.count("is back in the queue") == 2
    steps = re.findall(r"back in the queue \(stopped by SIGTERM, step (\d+)\)", err)
    assert len(steps) == 2 and all(int(step) >= 100 for step in steps), err
    assert err.count("submitted: 1 run as attnlab-scan-") == 2

    again = run_command("train.py", *sweep(tmp_path, *words, *ON_SLURM), timeout=400)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("finished before") == 1 and again.stderr.count("submitted: ") == 1
    item = run_command("train.py", *sweep(tmp_path / "here", *words, "hydra/launcher=basic"), timeout=400)
    assert item.returncode == 0, item.stderr
    runs = [records(folder, ["linear", "vanilla"], [0], LONGER) for folder in (tmp_path, tmp_path / "here")]
    assert runs[0] == runs[1]


def test_jobs_of_a_lost_machine_go_on_from_their_checkpoints(tmp_path: Path, slurm: Path) -> None:
    """Nothing on it says that the jobs have ended: its programs are killed, and the node is set down."""
    words = ("model=linear", "train.max_steps=2000", *SMALL_SCAN)
    process = start_command("train.py", *sweep(tmp_path, *words, *ON_SLURM, "seed=0,1"))
    runs = [folder_of(tmp_path, *words, f"seed={seed}") for seed in (0, 1)]
    for run in runs:
        wait_for_step(run / "metrics.csv", 100, process)
    subprocess.run(["pkill", "-KILL", "--pidfile", str(slurm / "slurmd.pid")], check=True)
    subprocess.run(["pkill", "-KILL", "--full", rf"slurmstepd: \[({'|'.join(_ids())})\."], check=True)
    for run in runs:
        os.kill(json.loads((run / "status.json").read_text())["pid"], signal.SIGKILL)
    node = f"nodename={socket.gethostname().partition('.')[0]}"
    subprocess.run(["scontrol", "update", node, "state=down", "reason=lost"], check=True)
    # it registers, and is up again
    subprocess.run(["slurmd", "-c"], check=True)
    until_all_run_again(process)
    code, _, err = end(process)
    assert code == 0 and err.count("is back in the queue; it goes on later") == 2, err
    here = run_command("train.py", *sweep(tmp_path / "here", *words, "seed=0,1", "hydra/launcher=basic"), timeout=400)
    assert here.returncode == 0, here.stderr
    assert len({str(records(folder, ["linear"], [0, 1], words[1:])) for folder in (tmp_path, tmp_path / "here")}) == 1


def test_a_job_whose_time_is_over_goes_on_later(tmp_path: Path) -> None:
    """The signal comes when 10 to 70 of 120 seconds are over."""
    words = (*UNSAVED, "train.max_steps=20000", "model=linear")
    limits = ("hydra.launcher.timeout_min=2", "hydra.launcher.signal_delay_s=50")
    process = start_command("train.py", *sweep(tmp_path, *words, *ON_SLURM, "seed=0,1", *limits))
    code, _, err = end(process, 580)
    assert code == 0, err
    assert re.search(r"job \d+_\d is back in the queue \(stopped by SIGUSR2, step [\d,]+\)", err), err
    logs = [log.read_text() for log in tmp_path.glob("runs/.sweeps/*/*/*_log.out")]
    assert len(logs) == 2 and all("the job goes back into the queue" in log for log in logs)
    here = run_command("train.py", *settings(tmp_path / "here", *words, "seed=1"), timeout=400)
    assert here.returncode == 0
    runs = [records(folder, ["linear"], [1], words[:-1]) for folder in (tmp_path, tmp_path / "here")]
    assert runs[0] == runs[1]


def test_a_run_of_several_processes_goes_on_after_a_notice(tmp_path: Path) -> None:
    """Two tasks of a job, which Slurm's notice reaches both; dropout draws in each."""
    options = (*UNSAVED, "train.max_steps=600", "backbone.dropout=0.1")
    words = (*options, "model=linear", "trainer.devices=2")
    process = start_command("train.py", *sweep(tmp_path, *words, *ON_SLURM, "seed=0,1"))
    wait_for_step(folder_of(tmp_path, *options, "model=linear", "seed=0") / "metrics.csv", 100, process)
    subprocess.run(["scancel", "--signal=USR2", held()[-1][0]], check=True)
    code, _, err = end(process)
    assert code == 0, err
    assert re.search(r"is back in the queue \(stopped by SIGUSR2, step \d+\)", err), err
    here = run_command("train.py", *settings(tmp_path / "here", *words, "seed=0"))
    assert here.returncode == 0, here.stderr
    runs = [records(folder, ["linear"], [0], options) for folder in (tmp_path, tmp_path / "here")]
    assert runs[0] == runs[1]


def test_runs_that_share_a_task_go_on_after_a_notice(tmp_path: Path) -> None:
    """A whole node: two runs as processes of one task, a core each."""
    words = (*UNSAVED, "train.max_steps=1000", "model=linear")
    together = (*ON_SLURM, "hydra.launcher.runs_per_task=2")
    plan = run_command("train.py", *sweep(tmp_path, *words, *together, "seed=range(0,3)"), "--plan")
    assert "on Slurm: 2 tasks of at most 2 runs in 1 array of at most 3 tasks" in plan.stdout, plan.stderr
    assert "ntasks_per_node=1, cpus_per_task=2" in plan.stdout
    process = start_command("train.py", *sweep(tmp_path, *words, *together, "seed=range(0,3)"))
    for seed in (0, 1):
        wait_for_step(folder_of(tmp_path, *words, f"seed={seed}") / "metrics.csv", 50, process)
    subprocess.run(["scancel", "--signal=USR2", held()[-1][0]], check=True)
    again = run_command("train.py", *sweep(tmp_path, *words, *together, "seed=range(0,3)"), timeout=400)
    code, _, err = end(process)
    assert code == again.returncode == 0, err + again.stderr
    assert again.stderr.count("in the queue already (job ") == 3 and "submitted" not in again.stderr
    assert re.search(r"submitted: 3 runs as attnlab, job \d+, tasks 0-1\n", err), err
    assert len(re.findall(r"\[[12]/3\] job \d+_0 is back in the queue \(stopped by SIGUSR2, step \d+\)", err)) == 2, err
    here = run_command("train.py", *sweep(tmp_path / "here", *words, "seed=range(0,3)", "hydra/launcher=basic"))
    assert here.returncode == 0, here.stderr
    runs = [records(folder, ["linear"], range(3), words[:-1]) for folder in (tmp_path, tmp_path / "here")]
    assert runs[0] == runs[1]


def test_jobs_outlive_the_process_that_submitted_them(tmp_path: Path) -> None:
    words = ("model=linear", "seed=range(0,3)", *LONG)
    process = start_command("train.py", *sweep(tmp_path, *words, *ON_SLURM))
    first = folder_of(tmp_path, *LONG, "model=linear", "seed=0")
    wait_for_step(first / "metrics.csv", 50, process)
    started = json.loads((first / "status.json").read_text())["pid"]
    process.kill()
    process.communicate()
    waiting = start_command("train.py", *sweep(tmp_path, *words, *ON_SLURM))
    assert waiting.stderr is not None
    while not re.match(r"\[3/3\] seed=2, in the queue already", waiting.stderr.readline()):
        assert waiting.poll() is None
    waiting.send_signal(signal.SIGINT)
    code, _, err = end(waiting)
    assert code == 130 and "the jobs go on" in err and "scancel " in err
    again = run_command("train.py", *sweep(tmp_path, *words, *ON_SLURM), timeout=400)
    assert again.returncode == 0, again.stderr
    assert "in the queue already (job " in again.stderr and "submitted" not in again.stderr
    assert json.loads((first / "status.json").read_text())["pid"] == started, "one process trained the run"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "partition=man",
            "hydra.launcher.partition=man: there is no partition man; nearest: main; here are main, urgent",
        ),
        ("gpus_per_node=1", "Slurm refused the jobs (Invalid generic resource (gres) specification), which ask for "),
        ("mem_gb=900000", "Slurm refused the jobs (Requested node configuration is not available), which ask for "),
    ],
)
def test_what_slurm_refuses_is_one_sentence(options: str, message: str, tmp_path: Path) -> None:
    done = run_command(
        "train.py", *sweep(tmp_path, *SHORT, "model=linear", "seed=0,1", *ON_SLURM, f"hydra.launcher.{options}")
    )
    assert done.returncode == 1
    assert message in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    done = subprocess.run(
        ["bash", str(ROOT / "tests/cluster/one_node_slurm.sh"), "up", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "is not empty; name a new folder" in done.stderr
    assert (tmp_path / "thesis.txt").exists()


def test_a_plan_submits_nothing(tmp_path: Path) -> None:
    words = ("model=linear,vanilla", "seed=range(0,3)", *SHORT, *ON_SLURM)
    done = run_command("train.py", *sweep(tmp_path, *words), "--plan")
    assert done.returncode == 0, done.stderr
    assert "6 runs, 0 finished; 6 to train" in done.stdout
    assert "on Slurm: 6 tasks in 2 arrays of at most 3 tasks, attnlab-scan-linear, attnlab-scan-vanilla" in done.stdout
    assert not held() and not (tmp_path / "runs").exists()
