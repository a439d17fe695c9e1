"""Figures of the attentions of finished or stopped runs, with their numbers as csv.

norms:     of queries and keys by head, before normalisation, as violins (Park & Kim 2024, figure 2)
values:    cosine similarity of values over positions, by head (their figures 3 and 6)
weights:   attention weights times the number of keys, by head, of one example
locality:  attention accumulated by neighbourhood (Qin et al. 2022, figure 2a and section 3.2)
gradients: relative standard deviation of the gradient norm over training (their table 2)

All but the last rebuild the network with the weights of the run's final test, and read some examples of its data.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from attnlab.analysis.compute_summary import QUANTITIES, DiagnosedExamples, choose, summarise_attention
from attnlab.analysis.gradient_norm_variation import COLUMN, column
from attnlab.analysis.summary_figures import draw, draw_gradients
from attnlab.analysis.summary_types import AttentionSummary
from attnlab.config.dotted_keys import flatten
from attnlab.config.message_text import show
from attnlab.config.run_identity import comparable
from attnlab.learn.devices.device_choice import choose_device
from attnlab.learn.reporter import Reporter
from attnlab.report.runs.read_runs import grouped
from attnlab.run.build_runtime import network_with, prepare
from attnlab.run.named_runs import rebuilt_config, unknown_subset
from attnlab.run.read_checkpoints import run_weights
from attnlab.run.run_folder import MetricsFile, RunError, read_config
from attnlab.tasks.base import Prepared, Task, make_task


class NamedRun(NamedTuple):
    """A run: its label in pictures, its folder, and row and seed for the names of files."""

    label: str
    folder: Path
    row: str = ""
    seed: str = ""


def draw_diagnosis(quantity: str, runs: Sequence[NamedRun], out: Path) -> list[Path]:
    """Draws one quantity of some runs: locality and gradients in one picture, others in a picture for each row.

    Returns:
        the files written, below `out`, with a csv for each picture: `locality.png`, `norms_linear_seed0_seed2.png`.
    """
    diagnosis = Diagnosis({})
    if quantity in ("locality", "gradients"):
        return diagnosis.draw([quantity], runs, out)
    pictures: dict[str, list[NamedRun]] = {}
    for number, (row, group) in enumerate(grouped((run, run.row) for run in runs).items(), start=1):
        word = re.sub(r"[^A-Za-z0-9.=-]+", "_", row).strip("_")[:80]
        name = "_".join(["", word, *(f"seed{run.seed}" for run in group)])
        pictures[name if name not in pictures else f"{name}_{number}"] = group
    return [file for name, group in pictures.items() for file in diagnosis.draw([quantity], group, out, name)]


def run_names(folders: Sequence[Path]) -> list[str]:
    """Names of runs: model, seed and up to three other keys that differ between them."""
    configs = [read_config(folder / "config.yaml") for folder in folders]
    flat = [flatten(comparable(config)) for config in configs]
    shared = [key for key in flat[0] if not key.startswith("model.") and all(key in other for other in flat)]
    differing = [key for key in shared if len({show(other[key]) for other in flat}) > 1][:3]
    names = []
    for config, values in zip(configs, flat, strict=True):
        settings = [f"{key.rpartition('.')[2]}={show(values[key])}" for key in differing]
        names.append(", ".join([config["model"]["name"], *settings, f"seed {config['seed']}"]))
    return names


class Diagnosis:
    """Draws runs, whose networks it rebuilds; data that several runs share is prepared once.

    Args:
        paths: folders that are not as in the configuration of a run.
        subset: None = the first test subset.
        examples: number of examples that are read.
        example: the number of the one that maps show; None = one of middling length.
    """

    def __init__(
        self, paths: Mapping[str, str], subset: str | None = None, examples: int = 64, example: int | None = None
    ) -> None:
        self.paths, self.subset, self.examples, self.example = paths, subset, examples, example
        self.reporter = Reporter("auto")
        self.prepared: dict[str, tuple[Task, Prepared]] = {}

    def draw(self, quantities: Collection[str], runs: Sequence[NamedRun], out: Path, name: str = "") -> list[Path]:
        """Draws some runs into the same pictures; `name` ends the names of the files, which are returned.

        Raises:
            RunError: no run, no weights, or no such subset or example; DataError: data cannot be had.
        """
        network = [quantity for quantity in QUANTITIES if quantity in quantities]
        summaries = [self._summary(run, network) for run in runs] if network else []
        written = [file for quantity in network for file in draw(quantity, summaries, out / f"{quantity}{name}")]
        if "gradients" not in quantities:
            return written
        norms = []
        for label, folder, *_ in runs:
            file = MetricsFile(folder / "metrics.csv")
            steps, values = column(file.rows(), COLUMN)
            if not values:
                raise RunError(f"{file.path} has no {COLUMN}: the run in {folder} has logged no step of training yet")
            norms.append((label, steps, values))
        return [*written, *draw_gradients(norms, out / f"gradients{name}")]

    def _summary(self, run: NamedRun, quantities: Collection[str]) -> AttentionSummary:
        """The arrays of one run's attentions."""
        label, folder, *_ = run
        config = rebuilt_config(folder, self.paths)
        # a run of a GPU can be drawn without one
        trainer = config.trainer
        wanted = "cpu" if trainer.device == "cpu" else "auto"
        device = choose_device(wanted, trainer.threads, config.train.tf32, trainer.deterministic)
        weights, where = run_weights(folder, "selected", config.train.selection)
        key = json.dumps([config.task, config.paths.data, config.paths.cache], sort_keys=True)
        if key not in self.prepared:
            task = make_task(config.task)
            self.prepared[key] = task, prepare(task, config.paths)
        task, prepared = self.prepared[key]
        network = network_with(weights, folder, config, prepared.spec).to(device)
        self.reporter.say(f"looking at {label}: {folder}")
        names = list(prepared.subsets)
        subset = self.subset or next((name for name in names if name.startswith("test")), names[-1])
        if subset not in names:
            raise RunError(unknown_subset(subset, names))
        examples = prepared.subsets[subset]
        if self.example is not None and self.example >= len(examples):
            raise RunError(f"example={self.example}: {subset} has {len(examples)} examples, numbered from 0")
        numbers = choose(examples, self.examples, self.example)
        looked_at = DiagnosedExamples(
            task=task, prepared=prepared, subset=subset, numbers=numbers, label=label, weights=f"step {where['step']}"
        )
        return summarise_attention(network, config, looked_at, quantities)
