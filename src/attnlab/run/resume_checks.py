"""Checks when a run is resumed: its data must be the same; other hardware and missing files are reported."""

import torch

from attnlab.data.examples import Examples
from attnlab.learn.training_progress import Reporter
from attnlab.run.provenance import hardware
from attnlab.run.read_run_files import read_config
from attnlab.run.run_folder import MetricsFile, RunError, RunFolder
from attnlab.tasks.base import Prepared, Task


def check_history(folder: RunFolder, file: MetricsFile, step: int, every: int, reporter: Reporter) -> None:
    """Report missing files of an earlier part: the run starts again, or its curves have a gap.

    The rows of that part keep their interval if `every` (`train.log_every`) is another one now.
    """
    reached = folder.status().get("step", 0)
    if not step and reached:
        reporter.say(f"note: this run had reached step {reached:,}, but {folder.checkpoint} is gone; it starts over")
        if file.path.exists():
            file.path.replace(file.path.with_name("metrics.csv.old"))
            reporter.say(f"its metrics are kept in {file.path}.old")
    if said := file.keep_damaged():
        reporter.say(said)
    logged = max((at for at, name, _ in file.rows() if name == "train/loss" and at <= step), default=0)
    logging = _logging(folder, every) if step else {"every": every, "since": 0}
    due = step // max(logging["every"], 1) * logging["every"]
    if logged < due and due > logging["since"]:
        reporter.say(
            f"note: {file.path} ends at step {logged:,} and the checkpoint is at {step:,}: its curves have a gap"
        )
    if logging["every"] != every:
        reporter.say(f"note: train.log_every is {every} from step {step:,} on, and was {logging['every']} before")
        logging = {"every": every, "since": step}
    folder.set_status("running", logging=logging)


def _logging(folder: RunFolder, every: int) -> dict[str, int]:
    """Interval of the last rows of metrics.csv, and the step from which it holds; by config.yaml in older folders."""
    given = read_config(folder.config_file)["train"].get("log_every", every)
    return folder.status().get("logging") or {"every": given, "since": 0}


def note_hardware(folder: RunFolder, device: torch.device, processes: int, reporter: Reporter) -> None:
    """Record the hardware and the number of processes; report a resume on others, where results are equal up to
    rounding only. Other processes draw anew what is random: dropout and hidden words.
    """
    now = hardware(device) | {"processes": processes}
    before = {"processes": 1} | folder.status().get("hardware", now)
    changed = [f"{key} {before.get(key)} -> {now[key]}" for key in now if before.get(key) != now[key]]
    if changed and folder.checkpoint.exists():
        anew = ", and dropout and hidden words are drawn anew" if before["processes"] != processes else ""
        reporter.say(f"note: resumed on other hardware ({', '.join(changed)}): equal up to rounding only{anew}")
    folder.set_status("running", hardware=now)


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
