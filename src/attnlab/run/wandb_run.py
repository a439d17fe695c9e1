"""Opening a wandb run: offline unless asked, never a prompt, one id for what lies in one folder."""

import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.config.schema import LoggerOptions
from attnlab.run.record import write_text

if TYPE_CHECKING:
    from wandb import Run

ID_FILE = "wandb_id.txt"


def open_run(folder: Path, root: Path, options: LoggerOptions, **about: Any) -> "Run":
    """Begin the wandb run of a folder, or begin it again under its id.

    Args:
        folder: what the run shows; its id is drawn once and kept there.
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
    run_id = _run_id(folder)
    if not online:
        # One history: what an earlier part left is replaced by this run, which says all of it again.
        for old in (root / "wandb").glob(f"offline-run-*-{run_id}"):
            shutil.rmtree(old, ignore_errors=True)
    return wandb.init(
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


def _run_id(folder: Path) -> str:
    file = folder / ID_FILE
    if not file.exists():
        write_text(file, secrets.token_hex(4))
    return file.read_text().strip()
