"""The run folder: files that a run writes, and the rules for opening a folder that exists.

config.yaml  metrics.csv  status.json  result.json  last.ckpt  best*_step<n>.pt  wandb_id.txt  .lock
figures/  if `logger.figures_every` is set
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

import attnlab
from attnlab.config.run_identity import comparable, differences
from attnlab.learn.run_lock import Locked, acquired_lock
from attnlab.learn.stop_signals import Stopped
from attnlab.run.read_run_files import HEADER, RunError, config_text, read_config, read_result, read_rows, read_status


def write_text(path: Path, text: str, advice: str = "choose another paths.runs") -> None:
    """Write a small file atomically.

    Args:
        advice: how to choose another folder.
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


def require_writable(folder: Path, advice: str, task: str = "write into") -> None:
    """Make a folder, and check that files can be written into it.

    Args:
        advice: how to choose another folder.
        task: what cannot be done, for the message.

    Raises:
        RunError: it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot {task} {folder}: {error.strerror} ({error.filename}); {advice}") from error
    # also false for root on a read-only file system
    if not os.access(folder, os.W_OK):
        raise RunError(f"cannot write into {folder}: it is read-only; {advice}")


class RunFolder:
    """Files of one run.

    Args:
        path: the folder, from `config.run_identity.run_folder`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint, self.result_file = path / "last.ckpt", path / "result.json"
        self.config_file, self.metrics_file = path / "config.yaml", path / "metrics.csv"
        self.status_file = path / "status.json"

    def create(self) -> None:
        """Make the folder.

        Raises:
            RunError: it cannot be made or written to.
        """
        require_writable(self.path, "set another paths.runs", "create the run folder")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other processes; the lock ends with this process.

        Raises:
            RunError: another process holds it.
        """
        try:
            lock = acquired_lock(self.path)
        except Locked:
            status = self.status()
            # no pid if the other process has not written its status yet
            who = f" (pid {status['pid']} on {status['host']})" if "pid" in status else ""
            raise RunError(
                f"another process{who} is running {self.path}; wait for it, or change seed or a setting for a run of "
                "its own"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def status(self) -> dict[str, Any]:
        """Content of status.json; empty if there is none."""
        return read_status(self.status_file)

    def set_status(self, state: str, reason: str = "", **more: Any) -> None:
        """Record running, finished, failed or stopped, with the reason; other entries of status.json are kept."""
        status = self.status() | more
        status |= {"state": state, "reason": reason, "updated": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        status |= {"pid": os.getpid(), "host": socket.gethostname(), "attnlab": attnlab.__version__}
        write_text(self.status_file, json.dumps(status, indent=2) + "\n")

    def record_end(self, error: BaseException | None) -> None:
        """Record in status.json how the run ended; a stop is kept there when the run goes on (`last_stop`)."""
        match error:
            case None:
                self.set_status("finished")
            case Stopped():
                last = {"reason": str(error), "step": self.status().get("step", 0), "at": time.time()}
                self.set_status("stopped", str(error), last_stop=last)
            case _:
                # cut: a compiler's message may have 200,000 characters
                self.set_status("failed", f"{type(error).__name__}: {error}"[:2000])

    def result(self) -> dict[str, Any] | None:
        """Content of result.json, or None."""
        return read_result(self.result_file)

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write result.json."""
        write_text(self.result_file, json.dumps(result, indent=2) + "\n")

    def keep(self, files: Mapping[str, Path]) -> None:
        """Copy files that the run depends on into the folder, each atomically; existing files are kept."""
        for name, source in files.items():
            if not (self.path / name).exists():
                part = self.path / f"{name}.part"
                shutil.copyfile(source, part)
                part.replace(self.path / name)

    def open_config(self, config: dict[str, Any]) -> None:
        """Write config.yaml, or compare the configuration with an existing one.

        Raises:
            RunError: the folder holds a run with another configuration.
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
        """Compare a configuration with config.yaml.

        Raises:
            RunError: they differ in options that training depends on; names every difference.
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
        """Refuse to resume a run that another version has started; a finished run can still be read.

        Raises:
            RunError: the versions differ.
        """
        version = self.status().get("attnlab", attnlab.__version__)
        if version != attnlab.__version__:
            raise RunError(
                f"{self.path} was begun by attnlab {version} and this is {attnlab.__version__}: resuming would mix two "
                "versions in one result; finish it with that version, or move the folder away to begin again"
            )


class ReadFolder(RunFolder):
    """The folder of a run for a process that writes nothing into it, because rank 0 does."""

    def set_status(self, state: str, reason: str = "", **more: Any) -> None:
        """Does nothing."""

    def keep(self, files: Mapping[str, Path]) -> None:
        """Does nothing."""


class MetricsFile:
    """metrics.csv: step, name, value; one metric a line, appended, so that a killed run keeps what it wrote.

    Values are written with all their digits. It holds no times: the files of a resumed and an uninterrupted run are
    equal.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[tuple[int, str, float]]:
        """Rows in order, without damaged lines."""
        return read_rows(self.path)[0]

    def keep_damaged(self) -> str:
        """Copy a file with damaged lines, which resuming removes; returns a note, empty if no line is damaged."""
        damaged = read_rows(self.path)[1]
        if not damaged:
            return ""
        kept = self.path.with_name(f"{self.path.name}.old")
        shutil.copyfile(self.path, kept)
        lines = "1 damaged line" if damaged == 1 else f"{damaged} damaged lines"
        return f"note: {lines} of {self.path} left out; the file as it was is kept in {kept}"

    def keep_until(self, step: int) -> list[tuple[int, str, float]]:
        """Drop rows after the step of a checkpoint, and results of an unfinished test; returns the other rows."""
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
