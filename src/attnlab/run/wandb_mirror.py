"""wandb as a mirror of the run folder: metrics.csv is the truth, and the mirror is rebuilt from it on resume.

Offline unless asked, never a prompt, one run a job, always finished. All runs share one `wandb` folder below
paths.runs, which `wandb leet` opens.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attnlab
from attnlab.config.job_config import JobConfig
from attnlab.config.naming import run_tag
from attnlab.learn.metric_units import lower_is_better
from attnlab.run.run_folder import MetricsFile
from attnlab.run.wandb_run import open_run

SUMMARY = ("seconds", "steps_per_second", "parameters", "state_size", "peak_memory_bytes")
"""of result.json, in the summary beside the metrics"""


class WandbMirror:
    """One wandb run.

    Args:
        folder: the run folder; the run's id is drawn once and kept there.
        job: its configuration.
        rows: what metrics.csv holds from before a resume; replayed, so that the run has one continuous history.
        figures: pictures drawn before a resume, by step; replayed likewise.
    """

    def __init__(
        self,
        folder: Path,
        job: JobConfig,
        rows: Sequence[tuple[int, str, float]],
        figures: Mapping[int, Sequence[Path]],
    ) -> None:
        config, tag = job.raw, run_tag(job.raw)
        group = f"{job.label}/{config['model']['name']}"
        self.run = open_run(
            folder,
            Path(config["paths"]["runs"]),
            job.typed.logger,
            group=group,
            job_type="train",
            name=f"{group}/{tag}/seed{config['seed']}",
            tags=_tags(config, tag),
            # What the seeds of one setting share, and no other run has: the column to group runs by.
            config={**config, "setting": f"{group}/{tag}"},
        )
        self.shown_best: set[str] = set()
        past = {step: {} for step in sorted({row[0] for row in rows} | figures.keys())}
        for step, name, value in rows:
            past[step][name] = value
        for step, metrics in past.items():
            self.log(step, metrics)
            self.pictures(step, figures.get(step, ()))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add to the history; the summary keeps the best of a validation metric and the last of any other.

        So no curve on test data selects anything here either.
        """
        for name in metrics:
            if name.startswith("val/") and name not in self.shown_best:
                self.shown_best.add(name)
                self.run.define_metric(name, summary="min" if lower_is_better(name) else "max")
        self.run.log(dict(metrics), step=step)

    def pictures(self, step: int, files: Sequence[Path]) -> None:
        """Pictures beside the metrics of the same step."""
        import wandb

        if files:
            self.run.log({f"figures/{file.stem}": wandb.Image(str(file)) for file in files}, step=step)

    def summarise(self, result: Mapping[str, Any]) -> None:
        """Final metrics, cost, sizes and origin as the run's summary, the columns runs are compared by."""
        self.run.summary.update(result["metrics"])
        self.run.summary.update({key: result[key] for key in SUMMARY})
        selection, hardware = result["selection"], result["hardware"]
        self.run.summary.update({"selected_step": selection["step"], "selected_by": selection["rule"]})
        self.run.summary.update(
            {
                "commit": result["git"]["commit"],
                "device": hardware["gpu"] or hardware["cpu"],
                "code": attnlab.__version__,
            }
        )

    def finish(self, exit_code: int) -> None:
        self.run.finish(exit_code=exit_code)


def _tags(config: Mapping[str, Any], tag: str) -> list[str]:
    """Words that runs are filtered by: task, model, what differs from the defaults, normalisation, loss, version."""
    kind, weight = config["model"]["normalization"]["kind"], config["model"]["ortho"]["weight"]
    # wandb takes 64 characters; the end of a long tag is what tells it from others.
    short = tag if len(tag) <= 64 else f"{tag[:51]}..{tag[-11:]}"
    words = [config["task"]["name"], config["model"]["name"], *([] if tag == "default" else [short])]
    words += [f"normalization={kind}"] if kind != "none" else []
    return [*words, *(["ortho"] if weight else []), f"attnlab={attnlab.__version__}"]


class Sinks:
    """metrics.csv, and a wandb run where asked for; what wandb cannot do never stops a run.

    Args:
        file: the truth.
        mirror: the wandb run, or None.
        say: told once when wandb fails.
    """

    def __init__(self, file: MetricsFile, mirror: WandbMirror | None, say: Callable[[str], None]) -> None:
        self.file, self.mirror, self.say = file, mirror, say

    def log(self, step: int, metrics: dict[str, float]) -> None:
        self.file.log(step, metrics)
        self.mirrored(lambda mirror: mirror.log(step, metrics))

    def pictures(self, step: int, files: Sequence[Path]) -> None:
        """Figures that lie in the run folder, for the wandb run."""
        self.mirrored(lambda mirror: mirror.pictures(step, files))

    def mirrored(self, action: Callable[[WandbMirror], None]) -> None:
        """Do something with the wandb run, if there is one that works."""
        if self.mirror is None:
            return
        try:
            action(self.mirror)
        except Exception as error:
            self.mirror = None
            self.say(f"wandb stopped working ({error}); metrics go on into {self.file.path}")
