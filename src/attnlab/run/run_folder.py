"""The run folder: files that a run writes, and the rules for opening a folder that exists.

config.yaml  metrics.csv  status.json  result.json  last.ckpt  best*_step<n>.pt  wandb_id.txt  .lock
figures/  if `logger.figures_every` is set
"""

import contextlib
import hashlib
import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attnlab
from attnlab.config.job_config import JobConfig
from attnlab.config.plain_json import json_text
from attnlab.config.run_identity import comparable, differences
from attnlab.data.files.file_lock import Timeout
from attnlab.learn.devices.rank_layout import EndedElsewhere
from attnlab.learn.stop_signals import Stopped
from attnlab.run.read_run_files import (
    HEADER,
    RunError,
    checksum,
    config_text,
    read_config,
    read_result,
    read_rows,
    read_status,
)
from attnlab.run.run_lock import acquired_lock, is_locked

_PART = re.compile(r"(.+\.\d+|last\.ckpt|best(_.+)?_step\d+\.pt)\.part")
"""files that a run writes and renames (`write_text`, `learn.weight_files`)"""


def write_text(path: Path, text: str, advice: str = "choose another paths.runs") -> None:
    """Write a small file atomically; `advice` says how to choose another folder."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise RunError(f"cannot write {path}: {error.strerror}; free space or {advice}") from error


def require_writable(folder: Path, advice: str, task: str = "write into") -> None:
    """Make a folder, and check that files can be written into it.

    Raises:
        RunError: it cannot be made or written to; `advice` says how to choose another one, `task` what failed.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot {task} {folder}: {error.strerror} ({error.filename}); {advice}") from error
    # also false for root on a read-only file system
    if not os.access(folder, os.W_OK):
        raise RunError(f"cannot write into {folder}: it is read-only; {advice}")


def inner_folder(run: Path, name: str) -> Path:
    """A folder for output inside of a run folder, which may be a stranger's; a link is refused with a RunError."""
    if (run / name).is_symlink():
        raise RunError(f"{run / name} is a link, so output would go elsewhere; remove it, or name a folder with out=")
    return run / name


class RunFolder:
    """Files of one run; with `writes` this process writes status.json: of several, rank 0."""

    def __init__(self, path: Path, writes: bool = True) -> None:
        self.path, self.writes = path, writes
        self.checkpoint, self.result_file = path / "last.ckpt", path / "result.json"
        self.config_file, self.metrics_file = path / "config.yaml", path / "metrics.csv"
        self.status_file = path / "status.json"
        self._written: dict[str, Any] | None = None

    def create(self) -> None:
        """Make the folder; a RunError if it cannot be made or written to."""
        require_writable(self.path, "set another paths.runs", "create the run folder")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder until the block or the process ends, and remove what a killed process has left; a RunError if
        another process holds it.
        """
        try:
            lock = acquired_lock(self.path)
        except Timeout:
            status = self.status()
            # no pid if the other process has not written its status yet
            who = f" (pid {status['pid']} on {status['host']})" if "pid" in status else ""
            raise RunError(f"another process{who} is running {self.path}; wait for it, or change the seed") from None
        try:
            for part in self.path.glob("*.part"):
                if _PART.fullmatch(part.name) and (part.is_symlink() or not part.is_dir()):
                    part.unlink()
            yield
        finally:
            lock.release()

    def status(self) -> dict[str, Any]:
        """Content of status.json, as this object has written it, else as it is; empty if there is none."""
        return dict(read_status(self.status_file) if self._written is None else self._written)

    def set_status(self, state: str, reason: str = "", **more: Any) -> None:
        """Record running, finished, failed or stopped, with the reason; other entries of status.json are kept, also if
        somebody removes it meanwhile.
        """
        if not self.writes:
            return
        status = self.status() | more
        status |= {"state": state, "reason": reason, "updated": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        status |= {"pid": os.getpid(), "host": socket.gethostname(), "attnlab": attnlab.__version__}
        write_text(self.status_file, json_text(status, indent=2) + "\n")
        self._written = status

    def record_end(self, error: BaseException | None) -> None:
        """Record in status.json how the run ended; a stop is kept there when the run goes on (`last_stop`).

        An `EndedElsewhere` is recorded by the process that knows more (`record_lost`).
        """
        match error:
            case None:
                self.set_status("finished")
            case Stopped():
                last = {"reason": str(error), "step": self.status().get("step", 0), "at": time.time()}
                self.set_status("stopped", str(error), last_stop=last)
            case EndedElsewhere():
                pass
            case _:
                # cut: a compiler's message may have 200,000 characters
                self.set_status("failed", f"{type(error).__name__}: {error}"[:2000])

    def record_lost(self, error: BaseException) -> None:
        """Record the end of a run whose process could not do so; nothing if it had not begun, or has ended itself."""
        with contextlib.suppress(RunError):
            if self.status().get("state") == "running" and not is_locked(self.path):
                self.record_end(error)

    def result(self) -> dict[str, Any] | None:
        return read_result(self.result_file)

    def bind_metrics(self, checksum: dict[str, Any] | None) -> None:
        """Record the checksum of metrics.csv of a run that has no result yet; None: it may be any."""
        self.set_status("running", metrics_file=checksum, result_file=None)

    def write_result(self, result: Mapping[str, Any], metrics: "MetricsFile") -> None:
        """Write result.json. Its checksum goes before it, so that a kill between them leaves a run without a result."""
        text = json_text(result, indent=2) + "\n"
        self.set_status("running", metrics_file=metrics.checksum(), result_file=checksum(text.encode()))
        write_text(self.result_file, text)

    def keep(self, files: Mapping[str, Path]) -> None:
        """Copy files that the run depends on into the folder, each atomically; existing files are kept."""
        for name, source in files.items():
            if self.writes and not (self.path / name).exists():
                part = self.path / f"{name}.{os.getpid()}.part"
                shutil.copyfile(source, part)
                part.replace(self.path / name)

    def open_config(self, config: dict[str, Any]) -> None:
        """Write config.yaml, or compare the configuration with it; a RunError if the run has another configuration."""
        former = [file.name for file in (self.checkpoint, self.result_file, self.status_file) if file.exists()]
        if self.config_file.exists():
            self.require_config(config)
        elif former:
            problem = f"{self.path} holds {', '.join(former)} but no config.yaml"
            raise RunError(f"{problem}; restore config.yaml, or move the folder away to begin again")
        else:
            write_text(self.config_file, config_text(config))

    def require_config(self, config: Mapping[str, Any]) -> None:
        """Compare a configuration with config.yaml; a RunError names every difference that training depends on."""
        former_config = read_config(self.config_file)
        changes = differences(*({**comparable(each), "seed": each.get("seed")} for each in (former_config, config)))
        if not changes:
            return
        version = "unknown"
        with contextlib.suppress(RunError):
            version = self.status().get("attnlab", version)
        origin = (
            "" if version == attnlab.__version__ else f" (made by attnlab {version}, this is {attnlab.__version__})"
        )
        raise RunError(
            f"{self.path} holds a run whose configuration differs from this one{origin}:\n    "
            + "\n    ".join(changes)
            + "\n  move the folder away, or give those keys their former values"
        )

    def require_version(self) -> None:
        """A RunError for an unfinished run that another version has begun; a finished one can still be read."""
        version = self.status().get("attnlab", attnlab.__version__)
        if version != attnlab.__version__:
            begun = f"{self.path} was begun by attnlab {version} and this is {attnlab.__version__}"
            raise RunError(f"{begun}; finish it with that version, or move the folder away to begin again")


class MetricsFile:
    """metrics.csv: step, name, value; one metric a line, appended, so that a killed run keeps what it wrote.

    Values are written with all their digits. It holds no times: the files of a resumed and an uninterrupted run are
    equal.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size, self._hash = 0, hashlib.sha256()

    def rows(self) -> list[tuple[int, str, float]]:
        """Rows in order, without damaged lines."""
        return read_rows(self.path)[0]

    def checksum(self) -> dict[str, Any]:
        """The checksum of what was written (`read_run_files.checksum`), which is on the disk then."""
        self._append(b"", sync=True)
        return {"bytes": self._size, "sha256": self._hash.hexdigest()}

    def keep_until(
        self, step: int, bind: Callable[[dict[str, Any] | None], None] = lambda checksum: None
    ) -> list[tuple[int, str, float]]:
        """Drop rows after the step of a checkpoint, and results of an unfinished test; returns the other rows.

        Args:
            bind: records the checksum of the new file, or None. It is called before the file is replaced, so that a
                kill between them leaves a pair that fits: the new file is the beginning of the former one.
        """
        rows = [row for row in self.rows() if row[0] <= step and not row[1].startswith(("test/", "test_paper_rule/"))]
        lines = [",".join(HEADER)] + [f"{at},{name},{value!r}" for at, name, value in rows]
        content = ("\n".join(lines) + "\n").encode()
        is_beginning = self.path.exists() and self.path.read_bytes().startswith(content)
        bind(checksum(content) if is_beginning else None)
        write_text(self.path, content.decode())
        self._size, self._hash = len(content), hashlib.sha256(content)
        return rows

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Append metrics of a step; a RunError if the disk is full, or another program has changed the file."""
        self._append("".join(f"{step},{name},{float(value)!r}\n" for name, value in metrics.items()).encode())

    def _append(self, content: bytes, sync: bool = False) -> None:
        try:
            # not "ab", which would make a file that was removed anew
            with self.path.open("r+b") as file:
                if file.seek(0, os.SEEK_END) != self._size:
                    raise RunError(f"{self.path} was changed while the run wrote it; {_RESTORE}")
                file.write(content)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
        except FileNotFoundError:
            raise RunError(f"{self.path} was removed while the run wrote it; {_RESTORE}") from None
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror}; free space, repeat the command") from error
        self._size += len(content)
        self._hash.update(content)


_RESTORE = "restore it from a copy, or move it away: its curves then begin at the last checkpoint; repeat the command"


def finished_result(folder: RunFolder, job: JobConfig) -> dict[str, Any] | None:
    """The result of a finished run; else None, and the folder is ready for training; a RunError for another run."""
    folder.open_config(job.raw)
    result = folder.result()
    if result is None:
        folder.require_version()
    elif folder.status().get("state") != "finished":
        # A kill between the result and the status must not leave a finished run looking unfinished.
        folder.set_status("finished")
    return result


def recorded_result(job: JobConfig) -> dict[str, Any] | None:
    """The result of a run whose status is finished, else None; a RunError if the folder holds another run.

    Nothing is written and no lock is taken: the folder of a finished run does not change, and may be read-only.
    """
    folder = RunFolder(job.folder)
    if not folder.result_file.exists():
        return None
    folder.open_config(job.raw)
    return folder.result() if folder.status().get("state") == "finished" else None


def is_finished(job: JobConfig) -> bool:
    """Whether a run is finished; False if its folder has a problem, which training reports."""
    try:
        return recorded_result(job) is not None
    except RunError:
        return False


def objective(result: Mapping[str, Any]) -> tuple[str, float] | None:
    """Name and value of the validation metric of the tested weights, which a search optimises; else None."""
    selection = result.get("selection", {})
    return next(((name, value) for name, value in selection.items() if name.startswith("val/")), None)
