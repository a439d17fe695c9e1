"""wandb: runs that are opened offline by default and never with a prompt, and the mirror of metrics.csv in one."""

import hashlib
import importlib
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

import attnlab
from attnlab.config.classes.recorded_code import recorded_code
from attnlab.config.command_line.wandb_agent import agent_run_id, shown_config
from attnlab.config.job_config import JobConfig
from attnlab.config.schema import LoggerOptions
from attnlab.learn.metric_units import lower_is_better
from attnlab.run.read_run_files import Unreadable, plain_bytes, read_rows
from attnlab.run.run_folder import objective, write_text
from attnlab.run.run_lock import LOCK, acquired_lock, is_locked

if TYPE_CHECKING:
    from wandb import Run

ID_FILE = "wandb_id.txt"
TEMPORARY = "tmp-"
"""beginning of the name of wandb's temporary folder, below `<runs>/wandb`"""
OWNER_FILE = "attnlab_run.txt"
"""file in a wandb folder that names its run folder, relative to paths.runs"""
_LOCKS: list[FileLock] = []
LONGEST_NAME, LONGEST_TAG = 128, 64
"""characters that wandb's server takes of the name of a run or a group, and of a tag"""
SUMMARY = ("seconds", "steps_per_second", "parameters", "state_size", "peak_memory_bytes")
"""entries of result.json in the summary, together with the metrics"""


def open_run(folder: Path, root: Path, options: LoggerOptions, **about: Any) -> "Run":
    """Open the wandb run of a folder; a RuntimeError online without a login.

    Its id is drawn once and kept in the folder; an id that was copied from another folder is replaced, since wandb
    would show both as one run.

    Args:
        root: paths.runs; all runs share its `wandb` folder.
        about: name, group, job_type, tags and config, as in `wandb.init`; long names and tags are shortened.
    """
    about |= {key: shortened(about[key], LONGEST_NAME) for key in ("name", "group") if key in about}
    about["tags"] = [shortened(tag, LONGEST_TAG) for tag in about.get("tags", ())]
    wandb = import_wandb(root)
    online = options.name == "wandb_online"
    if online and not wandb.login(prompt=False):
        raise RuntimeError("not logged in: run `wandb login` once, or use logger=wandb_offline")
    owner = os.path.relpath(folder, root)
    run_id = _run_id(folder, root, owner)
    if not online:
        _remove_earlier(root, run_id)
    run = wandb.init(
        dir=str(root),
        mode="online" if online else "offline",
        id=run_id,
        resume="allow" if online else None,
        project=options.project,
        entity=options.entity,
        reinit="create_new",
        settings=wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True),
        **about,
    )
    with suppress(OSError):
        (Path(run.dir).parent / OWNER_FILE).write_text(owner)
    return run


def shortened(text: str, longest: int) -> str:
    """A text of at most so many characters: of a longer one its beginning, a hash of the whole, and its end."""
    if len(text) <= longest:
        return text
    middle = f"..{hashlib.sha256(text.encode()).hexdigest()[:8]}.."
    end = text[-longest // 5 :]
    return text[: longest - len(middle) - len(end)] + middle + end


def import_wandb(root: Path) -> Any:
    """The package wandb; its temporary folders lie below paths.runs, where a next process removes them."""
    os.environ["WANDB_SILENT"] = "true"
    if "wandb" not in sys.modules:
        (root / "wandb").mkdir(parents=True, exist_ok=True)
        for left in (root / "wandb").glob(f"{TEMPORARY}*"):
            if (left / LOCK).exists() and not is_locked(left):
                shutil.rmtree(left, ignore_errors=True)
        folder = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=root / "wandb"))
        # until this process ends
        _LOCKS.append(acquired_lock(folder))
        # also at the end of a worker process, where functions of atexit are not called
        Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=0)
        former, tempfile.tempdir = tempfile.tempdir, str(folder)
        try:
            importlib.import_module("wandb")
        finally:
            tempfile.tempdir = former
    return sys.modules["wandb"]


def _remove_earlier(root: Path, run_id: str) -> None:
    """Remove earlier parts of an offline run, which is logged again from the start; nothing outside `<runs>/wandb`."""
    for old in sorted((root.resolve() / "wandb").glob(f"offline-run-*-{run_id}")):
        if old.resolve() == old and old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        else:
            print(f"note: {old} is a link or no folder and is kept; wandb shows its history twice", file=sys.stderr)


def _run_id(folder: Path, root: Path, owner: str) -> str:
    """The id that an agent of wandb gives, else the id in the folder; a new one if that is missing, malformed or of
    another folder.
    """
    run_id = stored = _text(folder / ID_FILE) or ""
    valid = re.fullmatch("[0-9a-z]{8}", stored)
    owners = set(map(_text, (root / "wandb").glob(f"*run-*-{stored}/{OWNER_FILE}"))) if valid else set()
    if not valid or owners - {owner, None}:
        run_id = secrets.token_hex(4)
    if (run_id := agent_run_id() or run_id) != stored:
        write_text(folder / ID_FILE, run_id)
    return run_id


def _text(file: Path) -> str | None:
    """The text of a small file, empty if there is no file; None if it cannot be read."""
    with suppress(Unreadable):
        return (plain_bytes(file, "remove it") or b"").decode(errors="replace").strip()
    return None


class WandbMirror:
    """One wandb run; rows of metrics.csv and pictures (by step) from before a resume are logged again."""

    def __init__(
        self,
        folder: Path,
        job: JobConfig,
        rows: Sequence[tuple[int, str, float]],
        figures: Mapping[int, Sequence[Path]],
    ) -> None:
        config, tag = job.raw, job.folder.parent.name
        group = f"{job.label}/{config['model']['name']}"
        self.run = open_run(
            folder,
            Path(config["paths"]["runs"]),
            job.typed.logger,
            group=group,
            job_type="train",
            name=f"{config['model']['name']} {tag} seed={config['seed']}",
            tags=_tags(config, tag),
            # Equal for runs that differ in the seed only: the column to group runs by.
            config={**shown_config(config), "setting": f"{group}/{tag}"},
        )
        self.shown_best: set[str] = set()
        past: dict[int, dict[str, float]] = {step: {} for step in sorted({row[0] for row in rows} | figures.keys())}
        for step, name, value in rows:
            past[step][name] = value
        for step, metrics in past.items():
            self.log(step, metrics)
            self.pictures(step, figures.get(step, ()))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log metrics of a step; the summary keeps the best value of a validation metric, and the last of any other."""
        for name in metrics:
            if name.startswith("val/") and name not in self.shown_best:
                self.shown_best.add(name)
                self.run.define_metric(name, summary="min" if lower_is_better(name) else "max")
        self.run.log(dict(metrics), step=step)

    def pictures(self, step: int, files: Sequence[Path]) -> None:
        import wandb

        if files:
            self.run.log({f"figures/{file.stem}": wandb.Image(str(file)) for file in files}, step=step)

    def summarise(self, result: Mapping[str, Any]) -> None:
        """Write final metrics, cost, sizes and provenance into the summary of the run."""
        selection, hardware = result["selection"], result["hardware"]
        more = {
            "selected_step": selection["step"],
            "selected_by": selection["rule"],
            "commit": result["git"]["commit"],
            "device": hardware["gpu"] or hardware["cpu"],
            "code": attnlab.__version__,
            "sources": next(reversed(recorded_code(result)), {}),
        }
        if (aim := objective(result)) is not None:
            # What `wandb sweep` optimises: a number of its own, since the summary of val/... is a maximum or minimum.
            more["objective"] = aim[1]
        self.run.summary.update(result["metrics"] | {key: result[key] for key in SUMMARY} | more)

    def finish(self, exit_code: int) -> None:
        self.run.finish(exit_code=exit_code)


def log_finished_run(job: JobConfig, result: Mapping[str, Any]) -> str:
    """Log a run that was finished before as the wandb run that an agent asked for; why it could not be, or empty."""
    try:
        mirror = WandbMirror(job.folder, job, read_rows(job.folder / "metrics.csv")[0], figures={})
        mirror.summarise(result)
        mirror.finish(0)
    except Exception as error:
        return f"note: wandb did not start ({error}); the sweep does not see this run"
    return ""


def _tags(config: Mapping[str, Any], tag: str) -> list[str]:
    """Tags to filter runs by: task, model, changed options, normalisation, orthogonality loss, version."""
    kind, weight = config["model"]["normalization"]["kind"], config["model"]["ortho"]["weight"]
    words = [config["task"]["name"], config["model"]["name"], *([] if tag == "default" else [tag])]
    words += [f"normalization={kind}"] if kind != "none" else []
    return [*words, *(["ortho"] if weight else []), f"attnlab={attnlab.__version__}"]
