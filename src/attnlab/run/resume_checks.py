"""Checks when a run is resumed: its data must be the same; other hardware and missing files are reported."""

import torch

from attnlab.data.examples import Examples
from attnlab.learn.reporter import Reporter
from attnlab.run.provenance import hardware
from attnlab.run.run_folder import MetricsFile, RunError, RunFolder
from attnlab.tasks.base import Prepared, Task


def check_history(folder: RunFolder, file: MetricsFile, step: int, every: int, reporter: Reporter) -> None:
    """Report missing files of an earlier part (the run starts again, or its curves have a gap), and another
    `train.log_every`: the rows of that part keep their interval.
    """
    status = folder.status()
    reached, before = status.get("step", 0), status.get("log_every", every) if step else every
    if not step and reached:
        reporter.say(f"note: this run had reached step {reached:,}, but {folder.checkpoint} is gone; it starts over")
        if file.path.exists():
            file.path.replace(file.path.with_name("metrics.csv.old"))
            reporter.say(f"its metrics are kept in {file.path}.old")
    if not file.path.exists():
        if step:
            reporter.say(f"note: {file.path} is gone: its curves begin at step {step:,}")
        folder.bind_metrics(None)
    if before != every:
        reporter.say(f"note: train.log_every is {every} from step {step:,} on, and was {before} before")
    folder.set_status("running", log_every=every)


def note_hardware(folder: RunFolder, device: torch.device, processes: int, reporter: Reporter) -> None:
    """Report a resume on other hardware or in another number of processes than the last checkpoint is from, where
    results are equal up to rounding only. Other processes draw anew what is random: dropout and hidden words.
    """
    now = hardware(device) | {"processes": processes}
    before = {"processes": 1} | folder.status().get("hardware", now)
    changed = [f"{key} {before.get(key)} -> {now[key]}" for key in now if before.get(key) != now[key]]
    if changed and folder.checkpoint.exists():
        anew = ", and dropout and hidden words are drawn anew" if before["processes"] != processes else ""
        reporter.say(f"note: resumed on other hardware ({', '.join(changed)}): equal up to rounding only{anew}")


def require_same_data(folder: RunFolder, task: Task, prepared: Prepared[Examples]) -> None:
    """Record version and hash of the data at the first start; refuse to resume on other data."""
    now = {"version": task.version, "hash": prepared.data_hash()}
    before = folder.status().get("data", now)
    if before != now:
        raise RunError(
            f"{folder.path} was begun on data {before} and the data here is {now}; restore that data, or move the "
            "folder away to begin again"
        )
    folder.set_status("running", data=now)
