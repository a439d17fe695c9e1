"""Options of `python report.py diagnose=...`: the run, the quantities and the examples."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from attnlab.config.command_line.option_parser import CommandOptions
from attnlab.config.report_block import Quantity
from attnlab.config.validation.ranges import Count, Natural
from attnlab.run.named_runs import asked_config, subset_problem
from attnlab.run.run_folder import RunError

NO_WEIGHTS = (
    "the run has saved no weights yet (no last.ckpt); wait for its first checkpoint, repeat its training command, or "
    "draw quantities=gradients, which needs none"
)


@dataclass(frozen=True, kw_only=True)
class DiagnoseOptions(CommandOptions):
    """Options of report.py diagnose=..."""

    diagnose: Path = field(metadata={"missing": "<run folder>"})
    """the run folder (experiments/runs/<task>/<model>/<tag>/seed<k>)"""
    compare: Path | None = None
    """another run of the same task, drawn into the same pictures"""
    quantities: list[Quantity] = field(default_factory=lambda: list(get_args(Quantity)))
    """some of norms,values,weights,locality,gradients (default: all)"""
    subset: str | None = None
    """test/ood, val, train, ... (default: the first test subset)"""
    examples: Count = 64
    """number of examples that are read (default: 64)"""
    example: Natural | None = None
    """the number of the example that maps show (default: one of middling length)"""
    out: Path | None = None
    """folder of the files (default: diagnosis/ in the run folder)"""
    data: Path | None = field(default=None, metadata={"key": "paths.data"})
    """folder of the data (default: as in the run's configuration)"""
    cache: Path | None = field(default=None, metadata={"key": "paths.cache"})
    """folder of the prepared data (default: ATTNLAB_CACHE, else data/cache)"""

    def problems(self) -> Iterator[str]:
        """Run folders that cannot be read or lack weights, subsets that their tasks lack, runs of two tasks."""
        tasks, without_weights = [], []
        runs = {"diagnose": self.diagnose, "compare": self.compare}
        for key, folder in ((key, folder) for key, folder in runs.items() if folder):
            try:
                tasks.append(asked_config(key, folder)["task"])
            except RunError as error:
                yield str(error)
            else:
                without_weights += [] if (folder / "last.ckpt").exists() else [f"{key}={folder}: {NO_WEIGHTS}"]
        if self.quantities == ["gradients"]:
            return
        yield from without_weights
        if self.subset:
            yield from dict.fromkeys(filter(None, (subset_problem(task, self.subset) for task in tasks)))
        names = [task["name"] for task in tasks]
        if len(set(names)) > 1:
            yield f"compare={self.compare}: a run of {names[1]}, which has no axes in common with {names[0]}"

    @property
    def paths(self) -> dict[str, str]:
        """Folders that are not as in the run's configuration."""
        return {name: str(folder) for name, folder in (("data", self.data), ("cache", self.cache)) if folder}
