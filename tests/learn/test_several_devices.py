"""Runs on several devices: two processes with gloo on the CPU, compared with the same run in one process."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.model_cases import SPECS, models_for, network_of
from support.model_cases import config_of as model_config
from support.random_batches import drawn_batch
from support.several_devices import EXACT, assert_equal_numbers, raw_of
from support.slow_cases import slow_except
from support.small_runs import (
    BRIEF_SCAN,
    ROOT,
    SMALL_CLEVR,
    assert_same_run,
    environment,
    folder_of,
    run_job,
    settings,
    start_command,
    wait_for_step,
)
from support.tiny_data import TINY

from attnlab.config.job_config import job_config
from attnlab.config.run_identity import run_folder
from attnlab.config.schema import TrainerOptions
from attnlab.launch import rank_processes
from attnlab.launch.local_processes import Processes
from attnlab.learn.devices import process_group
from attnlab.learn.devices.process_group import Ranks, require_same_job, require_same_start
from attnlab.learn.devices.rank_layout import (
    AGENT,
    EndedElsewhere,
    RankError,
    RankLayout,
    end_if_left_open,
    layout_of,
    left_open,
)
from attnlab.learn.reporter import Reporter
from attnlab.learn.stop_signals import Stopped, StopRequest
from attnlab.learn.training_module import TrainingModule
from attnlab.run.run_folder import MetricsFile, RunFolder
from attnlab.run.train_run import note_hardware
from attnlab.tasks.kinds.base import kind_of

pytestmark = pytest.mark.usefixtures("default_signals")
TOGETHER = pytest.mark.xdist_group("two")
"""tests that use `two` run in one process of pytest, so that it is made once"""

SCAN = (*BRIEF_SCAN, "model=linear_l2_ortho")
DIAGNOSED = "train.diagnose_every=3"
SAME = {
    # the orthogonality loss, two batches a step, each in pieces
    "scan": (*SCAN, *EXACT, "train.max_steps=6", "train.accumulate=2", "train.max_tokens=120"),
    # batches of one sequence too, sorted by length
    "few_rows": (
        *SCAN,
        *EXACT,
        "train.max_steps=12",
        "train.batch_size=3",
        "train.batch_tokens=70",
        "train.bucket_window=4",
    ),
    "language_model": ("task=flip_flop", *TINY["flip_flop"], *EXACT, "model=linear", "train.max_steps=6"),
    "best_validation": (
        *SMALL_CLEVR,
        *EXACT,
        "model=vanilla",
        "train.max_steps=6",
        "train.validate_every=2",
        DIAGNOSED,
    ),
}
FAST = ("scan", "best_validation")
DROPOUT = (*SCAN, "train.max_steps=40", "backbone.dropout=0.2", "train.checkpoint_every=9", "optim.schedule=one_cycle")
DIVERGING = (*SCAN, "optim.lr=1e20", "optim.schedule=constant", "optim.clip_norm=null")
TWO = {"devices": 2}
LONG = (*SCAN, "train.max_steps=100000", "train.checkpoint_every=100000")


RANK_JOBS = ROOT / "tests/support/rank_jobs.py"


def torchrun_line(raws: list[dict[str, Any]], file: Path, script: Path = RANK_JOBS, restarts: int = 0) -> list[str]:
    """The command that runs these jobs one after the other in two processes."""
    file.write_text(json.dumps(raws))
    line = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=0"]
    line += ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", f"--max-restarts={restarts}"]
    return [*line, str(script), str(file)]


def torchrun_environment() -> dict[str, str]:
    return environment() | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}


def run_with_torchrun(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    line, variables = torchrun_line(*arguments, **options), torchrun_environment()
    return subprocess.run(line, capture_output=True, text=True, env=variables, cwd=ROOT, timeout=240, check=False)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of FAST, and one that diverges, in the same two processes, which torchrun starts."""
    return trained_by_two(tmp_path_factory.mktemp("ranks"), [*(SAME[name] for name in FAST), DIVERGING], failures=1)


@pytest.fixture(scope="module")
def two_more(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The other runs of SAME, and one with dropout."""
    others = [case for name, case in SAME.items() if name not in FAST]
    return trained_by_two(tmp_path_factory.mktemp("ranks"), [*others, DROPOUT], failures=0)


def trained_by_two(folder: Path, cases: list[tuple[str, ...]], failures: int) -> Path:
    raws = [raw_of(folder / "two", *case, **TWO) for case in cases]
    raws[0]["trainer"]["workers"] = 1
    done = run_with_torchrun(raws, folder / "jobs.json")
    assert done.returncode == failures == done.stderr.count("failed: "), done.stderr
    assert "src/attnlab/" not in done.stderr, f"a traceback beside torchrun's own: {done.stderr}"
    assert done.stderr.count("in 2 processes") == len(raws), done.stderr
    return folder


@TOGETHER
@pytest.mark.parametrize("case", slow_except(SAME, FAST))
def test_losses_weights_and_metrics_are_those_of_one_process(case: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue("two" if case in FAST else "two_more")
    raw = raw_of(folder / "one", *SAME[case])
    assert run_job(raw, quiet=True) == 0
    folders = run_folder(raw), run_folder(raw_of(folder / "two", *SAME[case], **TWO))
    assert_equal_numbers(*folders)
    results = [json.loads((folder / "result.json").read_text()) for folder in folders]
    assert [result["processes"] for result in results] == [{"ranks": 1, "nodes": 1}, {"ranks": 2, "nodes": 1}]


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int, int], None]:
    """Sends a signal to a rank in the middle of a step; the processes are forks of this one."""
    healthy = TrainingModule.training_step

    def put(step: int, rank: int, signum: int) -> None:
        def training_step(self: TrainingModule, *inputs: Any) -> Any:
            if self.global_step == step - 1 and os.environ.get("RANK", "0") == str(rank):
                os.kill(os.getpid(), signum)
            return healthy(self, *inputs)

        monkeypatch.setattr(TrainingModule, "training_step", training_step)

    return put


@TOGETHER
@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 0])
def test_a_stopped_run_ends_as_the_uninterrupted_one(
    rank: int, two_more: Path, tmp_path: Path, at_step: Callable, capfd: pytest.CaptureFixture[str]
) -> None:
    """Bit for bit, with dropout, whichever process gets the signal."""
    raw = raw_of(tmp_path, *DROPOUT, **TWO)
    folder = RunFolder(run_folder(raw))
    at_step(23, rank, signal.SIGTERM)
    assert run_job(raw, quiet=True) == 143
    assert folder.status()["state"] == "stopped" and folder.status()["step"] in (23, 24)
    at_step(99, rank, signal.SIGTERM)
    assert run_job(raw, quiet=True) == 0
    assert_same_run(run_folder(raw_of(two_more / "two", *DROPOUT, **TWO)), folder.path)
    printed = capfd.readouterr().err
    # of the parts of the two tests that are evaluated, and none of the hardware
    assert printed.count("note:") == 2 and printed.count("resuming") == printed.count("stopped:") == 1, printed


RESTARTED = """
import os, runpy, signal, sys
from attnlab.learn.training_module import TrainingModule

healthy = TrainingModule.training_step

def training_step(self, *inputs):
    if (os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"], self.global_step) == ("1", "0", 22):
        os.kill(os.getpid(), signal.SIGKILL)
    return healthy(self, *inputs)

TrainingModule.training_step = training_step
runpy.run_module("support.rank_jobs", run_name="__main__")
"""


@TOGETHER
@pytest.mark.slow
def test_torchrun_begins_again_and_ends_as_the_uninterrupted_run(two_more: Path, tmp_path: Path) -> None:
    """`--max-restarts`: a process is killed, all go on from the last checkpoint, bit for bit."""
    raw = raw_of(tmp_path, *DROPOUT, **TWO)
    script = tmp_path / "restarted.py"
    script.write_text(RESTARTED)
    done = run_with_torchrun([raw], tmp_path / "jobs.json", script, restarts=1)
    assert done.returncode == 0, done.stderr
    assert "resuming from step 18" in done.stderr
    assert_same_run(run_folder(raw_of(two_more / "two", *DROPOUT, **TWO)), run_folder(raw))


@pytest.mark.slow
def test_the_number_of_processes_may_change(
    tmp_path: Path, at_step: Callable, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run in one process goes on in two, and again in one.

    The other number is said until a checkpoint is from it: a start in two was lost before its first checkpoint, so
    that the next one goes on from the first.
    """
    for step, devices in ((5, 1), (9, 2), (99, 1)):
        at_step(step, 0, signal.SIGTERM)
        raw = raw_of(tmp_path, *DROPOUT, devices=devices)
        folder = RunFolder(run_folder(raw))
        if devices == 2:
            note_hardware(folder, torch.device("cpu"), 2, Reporter("lines"))
            capfd.readouterr()
        code = run_job(raw, quiet=True)
        printed = capfd.readouterr().err
        assert code == (0 if step == 99 else 143), printed
        assert (f"processes {3 - devices} -> {devices}" in printed) == (step != 5)
        assert folder.status()["hardware"]["processes"] == devices
    rows = MetricsFile(folder.path / "metrics.csv").rows()
    assert [step for step, name, _ in rows if name == "train/loss"] == list(range(1, 41))


@TOGETHER
def test_a_loss_that_is_not_finite_ends_all(two: Path) -> None:
    """And is said once, which `two` counts."""
    reason = RunFolder(run_folder(raw_of(two / "two", *DIVERGING, **TWO))).status()["reason"]
    assert "NonFiniteLoss: the loss is" in reason and "(16 in the batch)" in reason


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_is_named(
    rank: int, tmp_path: Path, at_step: Callable, capfd: pytest.CaptureFixture[str]
) -> None:
    raw = raw_of(tmp_path, *SCAN, "train.max_steps=40", **TWO)
    at_step(3, rank, signal.SIGKILL)
    assert run_job(raw, quiet=True) == 1
    printed = capfd.readouterr().err
    assert f"the process of rank {rank} was killed by SIGKILL" in printed and "Traceback" not in printed, printed
    assert printed.count("failed:") == 1 and "W1" not in printed, "nothing of torch's agent"
    status = RunFolder(run_folder(raw)).status()
    assert status["state"] == "failed" and f"rank {rank} was killed by SIGKILL" in status["reason"]


@pytest.mark.slow
def test_a_notice_reaches_the_former_handler(tmp_path: Path) -> None:
    """Such as one that puts the job back into a queue; once the run is saved."""
    seen: list[str] = []
    raw = raw_of(tmp_path, *LONG, **TWO)
    folder = RunFolder(run_folder(raw))
    former = signal.signal(signal.SIGUSR1, lambda *inputs: seen.append(folder.status()["state"]))

    def notice() -> None:
        while not (folder.metrics_file.exists() and "train/loss" in folder.metrics_file.read_text()):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGUSR1)

    threading.Thread(target=notice, daemon=True).start()
    try:
        assert run_job(raw, quiet=True) == 128 + signal.SIGUSR1
    finally:
        signal.signal(signal.SIGUSR1, former)
    assert seen == ["stopped"]


@pytest.mark.slow
def test_a_killed_command_leaves_no_process_and_a_saved_run(tmp_path: Path) -> None:
    folder = RunFolder(folder_of(tmp_path, *LONG))
    process = start_command("train.py", *settings(tmp_path, *LONG, "trainer.devices=2"))
    wait_for_step(folder.metrics_file, 30, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while any(map(is_running, children)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(children) == 2 and not any(map(is_running, children))
    assert folder.status()["state"] == "stopped" and folder.status()["step"] >= 30


@pytest.mark.slow
def test_processes_go_on_without_a_killed_torchrun(tmp_path: Path) -> None:
    raw = raw_of(tmp_path, *SCAN, "train.max_steps=300", **TWO)
    folder = RunFolder(run_folder(raw))
    process = subprocess.Popen(torchrun_line([raw], tmp_path / "jobs.json"), env=torchrun_environment(), cwd=ROOT)
    wait_for_step(folder.metrics_file, 10, process)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while folder.status()["state"] != "finished" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert folder.status()["state"] == "finished"


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "text"), [(0, "the process of rank 0 was lost"), (1, "another process of this run")])
def test_a_killed_process_of_torchrun_is_recorded(rank: int, text: str, tmp_path: Path) -> None:
    raw = raw_of(tmp_path, *LONG, **TWO)
    folder = RunFolder(run_folder(raw))
    process = subprocess.Popen(torchrun_line([raw], tmp_path / "jobs.json"), env=torchrun_environment(), cwd=ROOT)
    wait_for_step(folder.metrics_file, 10, process)
    first = folder.status()["pid"]
    ranks = map(int, subprocess.check_output(["pgrep", "--parent", str(process.pid)], text=True).split())
    os.kill(first if rank == 0 else next(pid for pid in ranks if pid != first), signal.SIGKILL)
    assert process.wait(120) == 1
    assert folder.status()["state"] == "failed" and text in folder.status()["reason"]


@pytest.mark.slow
def test_ctrl_c_at_any_time_ends_all(tmp_path: Path) -> None:
    """While the processes begin, connect and read data, too; the terminal sends it to all of them."""
    words = settings(tmp_path, *LONG, "trainer.devices=2")
    for seconds in (0.0, 0.01, 0.05, 0.2, 0.8):
        process = start_command("train.py", *words)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not children.read_text():
            assert process.poll() is None
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130 and err.count("stopped: ") == 1 and "Traceback" not in err, err


@pytest.mark.parametrize(
    ("rank", "code", "kind", "text"),
    [
        (1, 143, Stopped, "stopped by SIGTERM"),
        (1, 1, RankError, "rank 1 ended with exit code 1; its message is above"),
        (0, 2, EndedElsewhere, "exit code 2"),
        (1, 76, RankError, "rank 1 lost the connection to another one; repeat"),
        (0, -11, RankError, "rank 0 was killed by SIGSEGV; repeat"),
    ],
)
def test_the_first_process_that_ends_says_how_a_run_ended(rank: int, code: int, kind: type, text: str) -> None:
    error = rank_processes._rank_error(rank, code)
    assert isinstance(error, kind) and text in str(error)


def is_running(process: str) -> bool:
    """Whether a process runs; one whose end nobody has asked for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


@TOGETHER
@pytest.mark.parametrize("rank", [0, 1])
def test_a_finished_run_is_shown_once(
    rank: int, two: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in variables(rank, 2).items():
        monkeypatch.setenv(name, value)
    assert run_job(raw_of(two / "two", *SAME["best_validation"], **TWO), quiet=False) == 0
    assert ("This run was finished before" in capfd.readouterr().out) == (rank == 0)


def test_an_error_before_training_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    raw = raw_of(tmp_path, *SCAN, **TWO)
    folder = RunFolder(run_folder(raw))
    folder.create()
    with folder.locked():
        assert run_job(raw, quiet=True) == 1
    printed = capfd.readouterr().err
    assert printed.count("failed:") == printed.count("another process") == 1 and "rank 1" not in printed, printed


@pytest.mark.slow
def test_runs_after_one_that_cannot_go_on_are_trained_by_all(tmp_path: Path) -> None:
    raws = [raw_of(tmp_path, *SCAN, "train.max_steps=2", f"seed={seed}", **TWO) for seed in (0, 1)]
    broken, good = (RunFolder(run_folder(raw)) for raw in raws)
    broken.create()
    broken.set_status("finished")
    broken.result_file.write_text("{")
    done = run_with_torchrun(raws, tmp_path / "jobs.json")
    assert done.returncode == 1 and done.stderr.count("failed: ") == 1, done.stderr
    assert good.status()["state"] == "finished"


class WithOther(Ranks):
    """Rank 0 of two processes, of which the other one gathers a given value, or the same if it is None."""

    def __init__(self, other: Any = None) -> None:
        super().__init__(RankLayout(world=2))
        self.other, self.sent = other, []

    def gather(self, value: Any) -> list[Any]:
        self.sent.append(value)
        return [value, self.other or value]


def test_processes_that_would_train_different_runs_are_refused(tmp_path: Path) -> None:
    jobs = [job_config(raw_of(tmp_path, *SCAN, f"optim.lr={rate}")) for rate in (0.1, 0.2)]
    alike = WithOther()
    require_same_job(alike, jobs[1])
    with pytest.raises(RankError, match=r"rank 1 trains .* or with other options; start all processes with the same"):
        require_same_job(WithOther(alike.sent[0]), jobs[0])
    elsewhere = job_config(raw_of(tmp_path / "other", *SCAN, "optim.lr=0.2"))
    require_same_job(WithOther(alike.sent[0]), elsewhere)


@pytest.mark.parametrize(("other", "message"), [((2, "a"), "a checkpoint of step 2"), ((3, "b"), "other data")])
def test_processes_that_read_different_files_are_refused(other: Any, message: str, tmp_path: Path) -> None:
    require_same_start(WithOther(), 3, lambda: "a", tmp_path)
    with pytest.raises(RankError, match=f"rank 1 reads {message}"):
        require_same_start(WithOther(other), 3, lambda: "a", tmp_path)


def test_a_signal_waits_for_the_end_of_imports() -> None:
    stop, ended = StopRequest(), []
    with pytest.raises(Stopped), stop.listening():
        with stop.after_block():
            os.kill(os.getpid(), signal.SIGTERM)
            ended.append("block")
        ended.append("more")
    assert ended == ["block"]


def test_a_signal_ends_the_waiting_for_processes_that_have_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    stop = StopRequest()
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    group = process_group.opened_ranks(RankLayout(world=2, starter="torchrun"), False, stop)
    with stop.listening(), pytest.raises(Stopped), group:
        pytest.fail("a group of one")


@pytest.mark.parametrize(
    "message",
    [
        "[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 5000ms for recv",
        "Application timeout caused pair closure",
    ],
)
@pytest.mark.parametrize(
    ("local", "starter", "kind", "text"),
    [
        (0, "torchrun", RankError, "for 10 minutes another process of this run did not answer: its machine"),
        (0, "attnlab", RankError, "did not answer"),
        (1, "torchrun", EndedElsewhere, "exit code 1"),
    ],
)
def test_a_process_that_does_not_answer_is_a_sentence_on_each_machine(
    local: int, starter: Any, kind: type, text: str, message: str
) -> None:
    ranks = Ranks(RankLayout(rank=local, local=local, world=2, starter=starter))
    cause = ranks.cause(RuntimeError(message))
    assert isinstance(cause, kind) and text in str(cause)


def test_connections_that_do_not_close_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    waiting = threading.Event()
    monkeypatch.setattr(process_group.dist, "destroy_process_group", waiting.wait)
    monkeypatch.setattr(process_group, "CLOSE_SECONDS", 0.01)
    monkeypatch.setattr("os._exit", ended.append)
    end_if_left_open(1)
    assert not ended
    try:
        process_group._close_group(may_wait=True)
        end_if_left_open(143)
        assert ended == [143]
    finally:
        left_open.clear()
        waiting.set()


def variables(rank: int, world: int) -> dict[str, str]:
    """As torchrun sets them, on one machine."""
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": 29500}
    return {name: str(value) for name, value in numbers.items()} | {"MASTER_ADDR": "127.0.0.1"}


def of_step(tasks: int, nodes: int = 1, rank: int = 0) -> dict[str, str]:
    """As srun sets them for a task of a step."""
    numbers = {"PROCID": rank, "LOCALID": rank % (tasks // nodes), "STEP_NUM_TASKS": tasks, "STEP_NUM_NODES": nodes}
    numbers |= {"JOB_ID": 7, "STEP_ID": 1, "NTASKS": tasks}
    return {f"SLURM_{name}": str(value) for name, value in numbers.items()} | {"SLURM_STEP_NODELIST": "gpu[03-04]"}


BATCH_SCRIPT = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
FOUND = {
    "one": ({}, {}, 4, RankLayout()),
    "several GPUs": ({"devices": 2}, {}, 4, RankLayout(world=2)),
    "all GPUs": ({"devices": "auto"}, {}, 4, RankLayout(world=4)),
    "a CPU": ({"devices": "auto", "nodes": "auto"}, {}, 0, RankLayout()),
    "several CPU processes": ({"devices": 2, "device": "cpu"}, {}, 1, RankLayout(world=2)),
    "sbatch --ntasks=2 without srun": ({}, BATCH_SCRIPT, 0, RankLayout()),
    "srun --pty": ({"devices": 2}, of_step(1) | {"SLURM_PTY_PORT": "1"}, 0, RankLayout(world=2)),
    "torchrun": ({"devices": "auto"}, variables(1, 2), 0, RankLayout(1, 2, 1, 1, "torchrun")),
    "the agent": (
        {"devices": 2},
        variables(1, 2) | {"TORCHELASTIC_RUN_ID": AGENT},
        0,
        RankLayout(1, 2, 1, 1, "attnlab"),
    ),
    "srun": ({"devices": 2, "nodes": 2}, of_step(4, 2, 3), 0, RankLayout(3, 4, 1, 2, "srun")),
}


@pytest.mark.parametrize("case", FOUND)
def test_the_processes_of_a_run(case: str) -> None:
    options, inputs, gpus, expected = FOUND[case]
    assert layout_of(TrainerOptions(**options), inputs, lambda: gpus) == expected


REFUSED = {
    "srun started 2 processes on each machine; write trainer.devices=2 or auto, or start srun with --ntasks=1": (
        {},
        of_step(2),
        0,
    ),
    "srun started 1 process on each machine; write trainer.devices=1 or auto": ({"devices": 2}, of_step(1), 0),
    "torchrun started 2 processes on each machine": ({"devices": 3}, variables(0, 2), 0),
    "trainer.nodes=1, but srun started processes on 2 machines": ({"devices": 2}, of_step(4, 2), 0),
    "srun started more than 2 of 4 processes on one of 2 machines": (
        {"devices": 2, "nodes": 2},
        of_step(4, 2) | {"SLURM_LOCALID": "2"},
        0,
    ),
    "trainer.nodes=2: torchrun or srun start the processes": ({"nodes": 2}, {}, 8),
    "trainer.devices=4: torch sees 2 GPUs here; write trainer.devices=2 or auto": ({"devices": 4}, {}, 2),
    "trainer.devices=2: torch sees no GPU here; write trainer.device=cpu": ({"devices": 2, "device": "cuda"}, {}, 0),
}


@pytest.mark.parametrize("message", REFUSED)
def test_numbers_that_do_not_fit_are_one_sentence(message: str) -> None:
    options, inputs, gpus = REFUSED[message]
    with pytest.raises(RankError) as result:
        layout_of(TrainerOptions(**options), inputs, lambda: gpus)
    assert message in str(result.value) and "\n" not in str(result.value)


def test_jobs_on_several_devices_are_not_run_at_once(tmp_path: Path) -> None:
    jobs = [job_config(raw_of(tmp_path, *SCAN, f"seed={seed}", **TWO)) for seed in (0, 1)]
    assert Processes().process_plan(jobs) is None
    [problem] = Processes(2).problems(jobs)
    assert problem.startswith("hydra/launcher=joblib: ")


@pytest.mark.parametrize("task", slow_except(["scan", "sort_of_clevr", "flip_flop"], ["scan"]))
def test_every_parameter_has_a_gradient_in_every_step(task: str) -> None:
    """So DDP need not search the graph of every step for parameters that are not used."""
    for model in models_for(task):
        network = network_of(model, task).train()
        loss, penalty = kind_of(SPECS[task]).loss(network, drawn_batch(task))
        (loss + model_config(model, task).model.ortho.weight * penalty).backward()
        assert not [name for name, weight in network.named_parameters() if weight.grad is None], model


def test_a_parameter_without_a_gradient_is_named() -> None:
    network = network_of("linear", "scan")
    network.unused = torch.nn.Parameter(torch.zeros(2))
    module = TrainingModule(model_config("linear"), network, SPECS["scan"], Ranks(RankLayout(world=2)))
    kind_of(SPECS["scan"]).loss(network, drawn_batch("scan"))[0].backward()
    with pytest.raises(RankError, match=r"depend on the parameters unused \(1 such in the network\)"):
        module.on_after_backward()
