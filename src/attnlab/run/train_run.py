"""One run from its configuration to its result: train, resume, or show what is finished."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attnlab.config.job_config import JobConfig
from attnlab.learn.lightning_trainer import quiet_lightning
from attnlab.learn.stop_signals import StopRequest
from attnlab.learn.training_progress import Reporter
from attnlab.run.finished_run import finished_result
from attnlab.run.fit import fit
from attnlab.run.run_folder import RunFolder
from attnlab.run.run_lifecycle import begin, device_of, ended, open_session, record_result, size_line
from attnlab.run.runtime import place_data, prepared_task


def train_run(job: JobConfig, stop: StopRequest, label: str = "") -> tuple[dict[str, Any], bool]:
    """Train, resume or show one run.

    Args:
        stop: listens for signals.
        label: stands before every line of progress.

    Returns:
        the result, and whether it was there already.

    Raises:
        RunError, DataError, NonFiniteLoss, Stopped: recorded in status.json before they leave here.
    """
    quiet_lightning()
    folder = RunFolder(job.folder)
    folder.create()
    with folder.locked():
        if (result := finished_result(folder, job)) is not None:
            return result, True
        reporter = Reporter(job.typed.trainer.progress, label)
        with _status_of(folder):
            begin(folder, reporter)
            result = _train(job, folder, reporter, stop)
        return result, False


@contextmanager
def _status_of(folder: RunFolder) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        ended(folder, error)
        raise
    ended(folder, None)


def _train(job: JobConfig, folder: RunFolder, reporter: Reporter, stop: StopRequest) -> dict[str, Any]:
    device = device_of(job.typed)
    task, prepared = prepared_task(job.typed)
    prepared = place_data(prepared, device, job.typed.trainer.data_on_device)
    session = open_session(job, folder, (task, prepared), device, reporter, stop)
    reporter.say(size_line(session.run.network, device))
    failed = True
    try:
        if session.step < session.run.config.train.max_steps:
            session.evaluator.try_longest()
            fit(session.run, session.sinks, session.evaluator, session.step)
            # Lightning moves the network back to the CPU when it is done.
            session.run.network.to(device)
        result = record_result(session)
        failed = False
    finally:
        session.close(failed)
    return result
