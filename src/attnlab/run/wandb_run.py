"""Opens wandb runs: offline by default, never with a prompt, one id for each folder."""

import importlib
import os
import re
import secrets
import shutil
import sys
import tempfile
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from attnlab.config.schema import LoggerOptions
from attnlab.config.wandb_agent import given_id
from attnlab.run.read_run_files import Unreadable, plain_bytes
from attnlab.run.run_folder import write_text
from attnlab.run.run_lock import LOCK, acquired_lock, is_locked

if TYPE_CHECKING:
    from wandb import Run

ID_FILE = "wandb_id.txt"
TEMPORARY = "tmp-"
"""beginning of the name of wandb's temporary folder, below `<runs>/wandb`"""
OWNER_FILE = "attnlab_run.txt"
"""file in a wandb folder that names its run folder, relative to paths.runs"""
_LOCKS: list[FileLock] = []


def open_run(folder: Path, root: Path, options: LoggerOptions, **about: Any) -> "Run":
    """Open the wandb run of a folder, under the id that the folder keeps.

    Args:
        folder: the folder that the run shows. Its id is drawn once and kept there; an id that was copied from another
            folder is replaced, since wandb would show both as one run.
        root: paths.runs; all runs share its `wandb` folder.
        about: name, group, job_type, tags and config, as in `wandb.init`.

    Raises:
        RuntimeError: online without a login.
    """
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
    if (run_id := given_id() or run_id) != stored:
        write_text(folder / ID_FILE, run_id)
    return run_id


def _text(file: Path) -> str | None:
    """The text of a small file, empty if there is no file; None if it cannot be read."""
    with suppress(Unreadable):
        return (plain_bytes(file, "remove it") or b"").decode(errors="replace").strip()
    return None
