"""wandb run of a job, a mirror of metrics.csv that is rebuilt from it on resume."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attnlab
from attnlab.config.job_config import JobConfig
from attnlab.config.wandb_agent import shown_config
from attnlab.learn.metric_units import lower_is_better
from attnlab.run.finished_run import objective
from attnlab.run.read_run_files import read_rows
from attnlab.run.wandb_run import open_run

SUMMARY = ("seconds", "steps_per_second", "parameters", "state_size", "peak_memory_bytes")
"""entries of result.json in the summary, together with the metrics"""


class WandbMirror:
    """One wandb run.

    Args:
        folder: the run folder, which keeps the id of the wandb run.
        job: the configuration.
        rows: rows of metrics.csv from before a resume; logged again, so that the history is complete.
        figures: pictures from before a resume, by step; logged again as well.
    """

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
        """Log pictures at a step."""
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
        }
        if (aim := objective(result)) is not None:
            # What `wandb sweep` optimises: a number of its own, since the summary of val/... is a maximum or minimum.
            more["objective"] = aim[1]
        self.run.summary.update(result["metrics"] | {key: result[key] for key in SUMMARY} | more)

    def finish(self, exit_code: int) -> None:
        """End the wandb run."""
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
    # wandb takes 64 characters; the end of a long tag tells it from others.
    short = tag if len(tag) <= 64 else f"{tag[:51]}..{tag[-11:]}"
    words = [config["task"]["name"], config["model"]["name"], *([] if tag == "default" else [short])]
    words += [f"normalization={kind}"] if kind != "none" else []
    return [*words, *(["ortho"] if weight else []), f"attnlab={attnlab.__version__}"]
