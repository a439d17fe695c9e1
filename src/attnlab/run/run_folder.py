"""The run folder: what a run writes about itself, and the rules for opening one that exists.

config.yaml  metrics.csv  status.json  result.json  last.ckpt  best*_step<n>.pt  wandb_id.txt  .lock
figures/  where they were asked for
"""

import contextlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

import attnlab
from attnlab.config.naming import comparable, differences
from attnlab.run.read_run_files import HEADER, RunError, config_text, read_config, read_result, read_rows, read_status


def write_text(path: Path, text: str, advice: str = "choose another paths.runs") -> None:
    """Replace a small file at once, or leave the old one.

    Args:
        advice: how to write elsewhere.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(exist_ok=True)
        part.write_text(text)
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise RunError(f"cannot write {path}: {error.strerror}; free space or {advice}") from error


def require_writable(folder: Path, advice: str) -> None:
    """Make a folder for files to come.

    Args:
        advice: how to write elsewhere.

    Raises:
        RunError: it cannot be made or written to; better known before the work than after it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write into {folder}: {error.strerror}; {advice}") from error
    # also false on a read-only file system, whoever asks
    if not os.access(folder, os.W_OK):
        raise RunError(f"cannot write into {folder}: it is read-only; {advice}")


class RunFolder:
    """Files of one run.

    Args:
        path: the folder, from `config.naming.run_folder`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint, self.result_file = path / "last.ckpt", path / "result.json"
        self.metrics_file, self.config_file, self.status_file = (
            path / "metrics.csv",
            path / "config.yaml",
            path / "status.json",
        )

    def create(self) -> None:
        """Make the folder.

        Raises:
            RunError: it cannot be written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                f"cannot create the run folder {self.path}: {error.strerror} ({error.filename}); set another paths.runs"
            ) from error
        if not os.access(self.path, os.W_OK):
            raise RunError(f"the run folder {self.path} is not writable; change its permissions or set paths.runs")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder against a second process; the lock goes with the process, however it ends.

        Raises:
            RunError: another process holds it.
        """
        lock = FileLock(self.path / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            status = self.status()
            # it has just begun where nothing is written yet
            who = f" (pid {status['pid']} on {status['host']})" if "pid" in status else ""
            advice = "wait for it, or change seed or a setting for a run of its own"
            if os.environ.get("SLURM_PROCID", "0") != "0":
                advice = "srun started this command once for each task of the job, and one is enough: --ntasks=1"
            raise RunError(f"another process{who} is running {self.path}; {advice}") from None
        try:
            yield
        finally:
            lock.release()

    def status(self) -> dict[str, Any]:
        """What status.json says; empty where there is none."""
        return read_status(self.status_file)

    def set_status(self, state: str, reason: str = "", **more: Any) -> None:
        """Record running, finished, failed or stopped, with the reason; what was recorded before stays beside it."""
        status = self.status() | more
        status |= {"state": state, "reason": reason, "updated": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        status |= {"pid": os.getpid(), "host": socket.gethostname(), "attnlab": attnlab.__version__}
        write_text(self.status_file, json.dumps(status, indent=2) + "\n")

    def result(self) -> dict[str, Any] | None:
        """The finished run's result, or None."""
        return read_result(self.result_file)

    def write_result(self, result: Mapping[str, Any]) -> None:
        write_text(self.result_file, json.dumps(result, indent=2) + "\n")

    def keep(self, files: Mapping[str, Path]) -> None:
        """Copy files the run depends on into the folder, each whole or not at all; those that are there stay."""
        for name, source in files.items():
            if not (self.path / name).exists():
                part = self.path / f"{name}.part"
                shutil.copyfile(source, part)
                part.replace(self.path / name)

    def open_config(self, config: dict[str, Any]) -> None:
        """Write config.yaml, or compare with the one that is there.

        Raises:
            RunError: the folder holds a run with another configuration or of another version.
        """
        former = [file.name for file in (self.checkpoint, self.result_file, self.status_file) if file.exists()]
        if self.config_file.exists():
            self.require_config(config)
        elif former:
            raise RunError(
                f"{self.path} holds {', '.join(former)} but no config.yaml, so nothing says what was trained; "
                "restore config.yaml, or move the folder away to begin again"
            )
        else:
            write_text(self.config_file, config_text(config))

    def require_config(self, config: Mapping[str, Any]) -> None:
        """Compare a configuration with the one the folder was made for.

        Raises:
            RunError: they differ in what is trained; names every difference.
        """
        there = read_config(self.config_file)
        changes = differences(*({**comparable(each), "seed": each.get("seed")} for each in (there, config)))
        if not changes:
            return
        version = self.status().get("attnlab", "unknown")
        made = "" if version == attnlab.__version__ else f" (made by attnlab {version}, this is {attnlab.__version__})"
        raise RunError(
            f"{self.path} holds a run whose configuration differs from this one{made}:\n    "
            + "\n    ".join(changes)
            + "\n  move the folder away, or give those keys their former values"
        )

    def require_version(self) -> None:
        """Refuse to resume what another version began; a finished run can still be read.

        Raises:
            RunError: versions differ.
        """
        version = self.status().get("attnlab", attnlab.__version__)
        if version != attnlab.__version__:
            raise RunError(
                f"{self.path} was begun by attnlab {version} and this is {attnlab.__version__}: resuming would mix two "
                "versions in one result; finish it with that version, or move the folder away to begin again"
            )


class MetricsFile:
    """metrics.csv: step, name, value; one metric a line, appended, so that a killed run loses nothing it wrote.

    Values are written with all their digits. No times stand in it: a resumed run's file equals the uninterrupted one's.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[tuple[int, str, float]]:
        """What was logged, in order; lines that are cut or damaged are left out."""
        return read_rows(self.path)[0]

    def keep_damaged(self) -> str:
        """Copy a file with damaged lines, which resuming removes; a note on it, empty where no line is damaged."""
        damaged = read_rows(self.path)[1]
        if not damaged:
            return ""
        kept = self.path.with_name(f"{self.path.name}.old")
        shutil.copyfile(self.path, kept)
        lines = "1 damaged line" if damaged == 1 else f"{damaged} damaged lines"
        return f"note: {lines} of {self.path} left out; the file as it was is kept in {kept}"

    def keep_until(self, step: int) -> list[tuple[int, str, float]]:
        """Drop what came after a checkpoint's step, and results of a test that did not finish; returns what stays."""
        rows = [row for row in self.rows() if row[0] <= step and not row[1].startswith(("test/", "test_paper_rule/"))]
        lines = [",".join(HEADER)] + [f"{at},{name},{value!r}" for at, name, value in rows]
        write_text(self.path, "\n".join(lines) + "\n")
        return rows

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append metrics of a step."""
        try:
            with self.path.open("a") as file:
                file.write("".join(f"{step},{name},{float(value)!r}\n" for name, value in metrics.items()))
        except OSError as error:
            raise RunError(
                f"cannot write {self.path}: {error.strerror}; free space, then repeat the command"
            ) from error
