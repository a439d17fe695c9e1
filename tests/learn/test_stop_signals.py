"""Signals during a training step: the end of the run, and handlers that receive them afterwards."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.small_runs import BRIEF_SCAN, ROOT, config_of, environment, run_job

from attnlab.config.run_identity import run_folder
from attnlab.learn.stop_signals import SAME_NOTICE_SECONDS, Stopped, StopRequest
from attnlab.learn.training_module import TrainingModule
from attnlab.run.run_folder import RunFolder

SMALL = (*BRIEF_SCAN, "model=linear", "train.max_steps=5")
pytestmark = pytest.mark.usefixtures("default_signals")


@pytest.fixture
def handlers() -> Iterator[Callable[[int, Any], None]]:
    """Sets signal handlers as a calling program does; the handlers of pytest are restored."""
    former: dict[int, Any] = {}

    def put(signum: int, handler: Any) -> None:
        former.setdefault(signum, signal.getsignal(signum))
        signal.signal(signum, handler)

    yield put
    for signum, handler in former.items():
        signal.signal(signum, handler)


def signals_in_step(step: int, signums: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """This process gets signals while the loss of a step is computed."""
    healthy = TrainingModule.training_step

    def step_with_signals(self: TrainingModule, *inputs: Any) -> Any:
        if self.global_step == step - 1:
            for signum in signums:
                os.kill(os.getpid(), signum)
        return healthy(self, *inputs)

    monkeypatch.setattr(TrainingModule, "training_step", step_with_signals)


@pytest.mark.parametrize("signum", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_notice_is_passed_on_when_the_run_is_closed(
    signum: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handlers: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    """A launcher's handler puts the job back into its queue and leaves."""
    raw = config_of(tmp_path, *SMALL)
    folder, seen = RunFolder(run_folder(raw)), []

    def requeue(number: int, frame: object) -> None:
        with folder.locked():
            seen.append((number, folder.status()["state"], folder.checkpoint.exists()))
        sys.exit(-1)

    handlers(signum, requeue)
    signals_in_step(3, (signum, signum), monkeypatch)
    with pytest.raises(SystemExit):
        run_job(raw, quiet=True)
    assert seen == [(signum, "stopped", True)]
    assert folder.status()["step"] == 3 and "stopped: " in capsys.readouterr().err
    assert signal.getsignal(signum) is requeue
    monkeypatch.undo()
    assert run_job(raw, quiet=True) == 0


def test_a_notice_nobody_waits_for_ends_the_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handlers: Callable
) -> None:
    raw, seen = config_of(tmp_path, *SMALL), []
    handlers(signal.SIGUSR2, lambda *inputs: seen.append(inputs))
    signals_in_step(2, (signal.SIGUSR1,), monkeypatch)
    assert run_job(raw, quiet=True) == 128 + signal.SIGUSR1
    assert RunFolder(run_folder(raw)).status()["state"] == "stopped" and not seen


def test_what_nohup_ignores_stays_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handlers: Callable) -> None:
    raw = config_of(tmp_path, *SMALL)
    handlers(signal.SIGHUP, signal.SIG_IGN)
    signals_in_step(2, (signal.SIGHUP,), monkeypatch)
    assert run_job(raw, quiet=True) == 0
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_notices_that_repeat_do_not_hurry_and_a_second_sigterm_does() -> None:
    with StopRequest().listening() as stop:
        stop.deferred = True
        # Slurm sends SIGTERM for a job and again for its step.
        for signum in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1):
            os.kill(os.getpid(), signum)
        assert stop.pending() == signal.SIGHUP
        stop.first_at -= SAME_NOTICE_SECONDS
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGTERM)
    with StopRequest().listening() as stop:
        with pytest.raises(Stopped):
            os.kill(os.getpid(), signal.SIGHUP)
        # while the run is being closed
        os.kill(os.getpid(), signal.SIGHUP)


def test_no_handling_of_errors_takes_a_stop_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """wandb that does not start is an error that is lived with; a signal while it starts is none."""

    def starting(*inputs: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("attnlab.run.train_run.WandbMirror", starting)
    raw = config_of(tmp_path, *SMALL, logger="wandb_offline")
    assert run_job(raw, quiet=True) == 143
    assert RunFolder(run_folder(raw)).status()["state"] == "stopped"
    assert "wandb did not start" not in capsys.readouterr().err


@pytest.mark.parametrize("script", [["train.py"], ["evaluate.py"], ["report.py"], ["-m", "attnlab.tasks"]])
def test_ctrl_c_in_the_middle_of_imports_is_one_line(script: list[str], tmp_path: Path) -> None:
    """A module of our own that waits stands in for those that take seconds to load."""
    (tmp_path / "hydra.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(60)\n")
    (tmp_path / "omegaconf.py").write_text((tmp_path / "hydra.py").read_text())
    more = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")])}
    line = [sys.executable, *script, "run=nowhere"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, env=environment() | more, cwd=ROOT)
    assert process.stdout.readline() == "here\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, text = process.communicate(timeout=60)
    assert (process.returncode, text) == (130, "\nstopped by Ctrl-C\n")


def test_ctrl_c_in_the_middle_of_a_composition_is_one_line(tmp_path: Path) -> None:
    """OmegaConf may raise another error instead of the interrupt, as this stand-in does."""
    (tmp_path / "omegaconf.py").write_text(
        "import os, signal\n"
        "def merge():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    finally:\n"
        "        raise AttributeError('lost')\n"
    )
    (tmp_path / "composing.py").write_text("import omegaconf\ndef main(argv):\n    omegaconf.merge()\n")
    begin = "import sys; from attnlab.run_script import run_script; sys.exit(run_script('composing:main'))"
    more = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT / "src")])}
    kept = {"capture_output": True, "text": True, "env": environment() | more, "cwd": ROOT}
    done = subprocess.run([sys.executable, "-c", begin], timeout=60, check=False, **kept)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nstopped by Ctrl-C\n")
