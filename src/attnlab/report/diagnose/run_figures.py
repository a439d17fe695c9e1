"""Figures of what the attentions of finished or stopped runs do, with the numbers below them as csv.

norms:     of queries and keys by head, as violins (Park & Kim 2024, figure 2)
values:    cosine similarity of values over positions, by head (their figures 3 and 6)
weights:   what the values are multiplied by, by head, of one example
locality:  attention accumulated by neighbourhood (Qin et al. 2022, figure 2a and section 3.2)
gradients: relative standard deviation of the gradient's norm over training (their table 2)

All but the last rebuild the network with the weights the run was tested with, and read some examples of its data.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.analysis.attention_arrays import Summary
from attnlab.analysis.attention_figures import draw, draw_gradients
from attnlab.analysis.attention_statistics import QUANTITIES, Look, choose, summarise
from attnlab.analysis.gradient_noise import COLUMN, column
from attnlab.config.dotted_keys import flatten
from attnlab.config.job_config import job_config
from attnlab.config.naming import comparable
from attnlab.config.schema import Config
from attnlab.config.suggest import hint, listed, nearest, show
from attnlab.learn.training_progress import Reporter
from attnlab.run.load_run import network_with, paths_here, trained_on
from attnlab.run.read_checkpoints import run_weights
from attnlab.run.run_argument import unknown_subset
from attnlab.run.run_folder import MetricsFile, RunError, read_config
from attnlab.run.runtime import choose_device, prepare
from attnlab.tasks.base import Prepared, Task, make_task

EXAMPLES = 64
TOGETHER = 2
"""runs that share a picture, where they are equal but for the seed"""


@dataclass(frozen=True, kw_only=True)
class ExampleChoice:
    """Which examples are looked at, and where files are.

    subset:  None = the first test subset; example: the one that maps show; None = one of middling length.
    paths:   `data` and `cache`, where they are not those of a run's own configuration.
    """

    subset: str | None = None
    examples: int = EXAMPLES
    example: int | None = None
    paths: Mapping[str, str] = field(default_factory=dict)


def diagnose_run(
    folder: Path,
    out: Path,
    quantities: Collection[str] = (*QUANTITIES, "gradients"),
    compare: Path | None = None,
    source: ExampleChoice | None = None,
) -> list[Path]:
    """Figures of one run, or of two in the same pictures.

    Args:
        out: the folder that takes `<quantity>.png` and `<quantity>.csv`.
        compare: another run, of the same task and any model.

    Returns:
        the files written.

    Raises:
        RunError: no run, no weights, no such subset or example; DataError: its data cannot be had.
    """
    folders = [folder, *([compare] if compare else [])]
    runs = list(zip(run_names(folders), folders, strict=True))
    network = [quantity for quantity in QUANTITIES if quantity in quantities]
    written: list[Path] = []
    if network:
        loader = _Loader(source or ExampleChoice())
        summaries = [loader.summary(label, where, network) for label, where in runs]
        for quantity in network:
            written += draw(quantity, summaries, out / quantity)
    if "gradients" in quantities:
        written += draw_gradients([_gradients(label, where) for label, where in runs], out / "gradients")
    return written


def draw_diagnosis(
    quantity: str, runs: Sequence[tuple[str, Path]], out: Path, source: ExampleChoice | None = None
) -> list[Path]:
    """One quantity of any number of runs, each with the name it is shown by.

    Locality and gradients of all runs are curves of one picture. Of the others runs that differ by their seed alone
    share a picture, two by two in the order given; the pictures are numbered where there are several.

    Returns:
        the files written, below `out`: `norms.png`, or `norms_1.png`, `norms_2.png`, ..., a csv beside each.

    Raises:
        RunError: no run, no weights, or no such subset or example; DataError: data cannot be had.
        ValueError: an unknown quantity, or no runs.
    """
    if quantity not in (allowed := (*QUANTITIES, "gradients")):
        raise ValueError(f"quantity={quantity}: expected one of {listed(allowed)}{hint(nearest(quantity, allowed))}")
    if not runs:
        raise ValueError(f"quantity={quantity}: there are no runs to draw it of")
    if quantity == "gradients":
        return draw_gradients([_gradients(label, folder) for label, folder in runs], out / quantity)
    loader = _Loader(source or ExampleChoice())
    groups = [list(runs)] if quantity == "locality" else _groups(runs)
    written: list[Path] = []
    for number, group in enumerate(groups, start=1):
        summaries = [loader.summary(label, folder, [quantity]) for label, folder in group]
        written += draw(quantity, summaries, out / (f"{quantity}_{number}" if len(groups) > 1 else quantity))
    return written


def run_names(folders: Sequence[Path]) -> list[str]:
    """Model and seed of each run, and what else differs between their configurations (at most three keys)."""
    configs = [read_config(folder / "config.yaml") for folder in folders]
    flat = [flatten(comparable(config)) for config in configs]
    shared = [key for key in flat[0] if not key.startswith("model.") and all(key in other for other in flat)]
    differing = [key for key in shared if len({show(other[key]) for other in flat}) > 1][:3]
    return [
        ", ".join(
            [config["model"]["name"]]
            + [f"{key.rpartition('.')[2]}={show(values[key])}" for key in differing]
            + [f"seed {config['seed']}"]
        )
        for config, values in zip(configs, flat, strict=True)
    ]


def _groups(runs: Iterable[tuple[str, Path]]) -> list[list[tuple[str, Path]]]:
    """Runs by what they have in common but for the seed, two at most together."""
    alike: dict[str, list[tuple[str, Path]]] = {}
    for label, folder in runs:
        key = json.dumps(comparable(read_config(folder / "config.yaml")), sort_keys=True)
        alike.setdefault(key, []).append((label, folder))
    return [group[i : i + TOGETHER] for group in alike.values() for i in range(0, len(group), TOGETHER)]


def _gradients(label: str, folder: Path) -> tuple[str, list[int], list[float]]:
    """Label, steps and norms of gradients of a run."""
    file = MetricsFile(folder / "metrics.csv")
    steps, values = column(file.rows(), COLUMN)
    if not values:
        raise RunError(f"{file.path} has no {COLUMN}: the run in {folder} has logged no step of training yet")
    return label, steps, values


class _Loader:
    """Rebuilds runs one after another; data that several share is prepared once."""

    def __init__(self, source: ExampleChoice) -> None:
        self.source, self.reporter = source, Reporter("auto")
        self.prepared: dict[str, tuple[Task, Prepared]] = {}

    def summary(self, label: str, folder: Path, quantities: Collection[str]) -> Summary:
        """What one run's attentions do."""
        raw = read_config(folder / "config.yaml")
        # its weights are this run's own by now; the run it began with may be gone
        raw |= {
            "from_run": None,
            "task": trained_on(folder),
            "paths": paths_here(raw["paths"]) | dict(self.source.paths),
        }
        config = job_config(raw).typed
        # a run made on a GPU can be looked at without one
        wanted = "cpu" if config.trainer.device == "cpu" else "auto"
        device = choose_device(wanted, config.trainer.threads, config.train.tf32)
        weights, where = run_weights(folder, "selected", config.train.selection)
        task, prepared = self._data(config)
        network = network_with(weights, folder, config, prepared.spec).to(device)
        self.reporter.say(f"looking at {label}: {folder}")
        return summarise(network, config, self._look(task, prepared, label, where), quantities)

    def _data(self, config: Config) -> tuple[Task, Prepared]:
        key = json.dumps([config.task, config.paths.data, config.paths.cache], sort_keys=True)
        if key not in self.prepared:
            task = make_task(config.task)
            self.prepared[key] = task, prepare(task, config.paths)
        return self.prepared[key]

    def _look(self, task: Task, prepared: Prepared, label: str, where: Mapping[str, Any]) -> Look:
        source, there = self.source, list(prepared.subsets)
        subset = source.subset or next((name for name in there if name.startswith("test")), there[-1])
        if subset not in there:
            raise RunError(unknown_subset(subset, there))
        examples = prepared.subsets[subset]
        if source.example is not None and source.example >= len(examples):
            raise RunError(f"example={source.example}: {subset} has {len(examples)} examples, numbered from 0")
        numbers = choose(examples, source.examples, source.example)
        return Look(
            task=task, prepared=prepared, subset=subset, numbers=numbers, label=label, weights=f"step {where['step']}"
        )
