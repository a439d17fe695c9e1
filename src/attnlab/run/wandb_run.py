"""Opening a wandb run: offline unless asked, never a prompt, one id for what lies in one folder."""

import os
import re
import secrets
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.config.schema import LoggerOptions
from attnlab.run.read_run_files import Unreadable, plain_bytes
from attnlab.run.run_folder import write_text

if TYPE_CHECKING:
    from wandb import Run

ID_FILE = "wandb_id.txt"
OWNER_FILE = "attnlab_run.txt"
"""in a folder of wandb's: which run folder it shows, seen from paths.runs"""


def open_run(folder: Path, root: Path, options: LoggerOptions, **about: Any) -> "Run":
    """Begin the wandb run of a folder, or begin it again under its id.

    Args:
        folder: what the run shows; its id is drawn once and kept there. An id that was copied from another folder is
            drawn anew: wandb would take the two for one run.
        root: paths.runs; all runs share the `wandb` folder in it.
        about: name, group, job_type, tags and config, as `wandb.init` takes them.

    Raises:
        RuntimeError: online without a login.
    """
    os.environ["WANDB_SILENT"] = "true"
    import wandb

    online = options.name == "wandb_online"
    if online and not wandb.login(prompt=False):
        raise RuntimeError("not logged in: run `wandb login` once, or use logger=wandb_offline")
    root.mkdir(parents=True, exist_ok=True)
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
        # Runs that are trained together are open at the same time.
        reinit="create_new",
        settings=wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True),
        **about,
    )
    with suppress(OSError):
        (Path(run.dir).parent / OWNER_FILE).write_text(owner)
    return run


def _remove_earlier(root: Path, run_id: str) -> None:
    """Remove what an earlier part of an offline run left: this run says all of it again, so that there is one history.

    Nothing outside `<runs>/wandb` is removed, nor where that is a link to another place.
    """
    place = root.resolve() / "wandb"
    for old in sorted(place.glob(f"offline-run-*-{run_id}")):
        if old.resolve() == old and old.is_dir():
            shutil.rmtree(old, ignore_errors=True)
        else:
            print(f"note: {old} is a link or no folder and stays; its history is told twice", file=sys.stderr)


def _run_id(folder: Path, root: Path, owner: str) -> str:
    """The id in the folder; a new one where there is none, a text that is none, or another folder's."""
    file, found = folder / ID_FILE, ""
    with suppress(Unreadable):
        found = (plain_bytes(file, "remove it") or b"").decode(errors="replace").strip()
    if not re.fullmatch("[0-9a-f]{8}", found) or _owners(root, found) - {owner}:
        found = secrets.token_hex(4)
        write_text(file, found)
    return found


def _owners(root: Path, run_id: str) -> set[str]:
    """The folders that wandb's runs of an id say they show."""
    owners = set()
    for file in (root / "wandb").glob(f"*run-*-{run_id}/{OWNER_FILE}"):
        with suppress(Unreadable):
            owners.add((plain_bytes(file, "remove it") or b"").decode(errors="replace").strip())
    return owners
