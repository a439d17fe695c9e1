"""wandb as a mirror of the run folder: metrics.csv is the truth, and the mirror is rebuilt from it on resume.

Offline unless asked, never a prompt, one run a job, always finished. All runs share one `wandb` folder below
paths.runs, which `wandb leet` opens.
"""

import itertools
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attnlab.config.naming import run_label, run_tag
from attnlab.config.schema import LoggerOptions
from attnlab.run.record import write_text

ID_FILE = "wandb_id.txt"


class WandbMirror:
    """One wandb run.

    Args:
        folder: the run folder; the run's id is drawn once and kept there.
        config: the whole resolved configuration.
        rows: what metrics.csv holds from before a resume; replayed, so that the run has one continuous history.
    """

    def __init__(
        self, folder: Path, config: dict[str, Any], options: LoggerOptions, rows: Iterable[tuple[int, str, float]]
    ) -> None:
        os.environ["WANDB_SILENT"] = "true"
        import wandb

        online = options.name == "wandb_online"
        if online and not wandb.login(prompt=False):
            raise RuntimeError("not logged in: run `wandb login` once, or use logger=wandb_offline")
        root = Path(config["paths"]["runs"])
        root.mkdir(parents=True, exist_ok=True)
        run_id = _run_id(folder)
        if not online:
            # One history: the mirror of the interrupted part is replaced by this one, which replays it.
            for old in (root / "wandb").glob(f"offline-run-*-{run_id}"):
                shutil.rmtree(old, ignore_errors=True)
        label, tag = run_label(config), run_tag(config)
        model = config["model"]["name"]
        self.run = wandb.init(
            dir=str(root),
            mode="online" if online else "offline",
            id=run_id,
            resume="allow" if online else None,
            project=options.project,
            entity=options.entity,
            group=f"{label}/{model}",
            job_type="train",
            name=f"{label}/{model}/{tag}/seed{config['seed']}",
            tags=[config["task"]["name"], model, *([] if tag == "default" else [tag[:64]])],
            config=config,
            settings=wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True),
        )
        for step, group in itertools.groupby(rows, key=lambda row: row[0]):
            self.log(step, {name: value for _, name, value in group})

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.run.log(dict(metrics), step=step)

    def summarise(self, result: Mapping[str, Any]) -> None:
        """Final metrics and sizes as the run's summary, the columns runs are compared by."""
        self.run.summary.update(result["metrics"])
        self.run.summary.update(
            {key: result[key] for key in ("seconds", "steps_per_second", "parameters", "state_size")}
        )

    def finish(self, exit_code: int) -> None:
        self.run.finish(exit_code=exit_code)


def _run_id(folder: Path) -> str:
    file = folder / ID_FILE
    if not file.exists():
        write_text(file, secrets.token_hex(4))
    return file.read_text().strip()
