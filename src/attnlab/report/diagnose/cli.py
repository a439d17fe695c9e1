"""`python report.py diagnose=<run folder> ...`: figures of the attentions of a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from attnlab.config.command_line.command_frame import command
from attnlab.config.command_line.option_parser import CommandOptions, options_help, read_options, unknown_options
from attnlab.config.problem import ConfigError, Problem
from attnlab.config.report_block import Quantity
from attnlab.config.validation.ranges import Count, Natural
from attnlab.plots.png_caption import caption_of
from attnlab.run.named_runs import config_of_folder, folder_words, subset_problem
from attnlab.run.run_folder import RunError, inner_folder, require_writable

PROGRAM = "report.py diagnose=<run folder>"
ELSEWHERE = "choose another folder with out="
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

    def problems(self) -> Iterator[Problem]:
        """Run folders that cannot be read or lack weights, subsets that their tasks lack, runs of two tasks."""
        tasks, without_weights = [], []
        runs = {"diagnose": self.diagnose, "compare": self.compare}
        for key, folder in ((key, folder) for key, folder in runs.items() if folder):
            try:
                tasks.append(config_of_folder(key, folder)["task"])
            except RunError as error:
                yield Problem("", str(error))
            else:
                without_weights += [] if (folder / "last.ckpt").exists() else [Problem(key, f"={folder}: {NO_WEIGHTS}")]
        if self.quantities == ["gradients"]:
            return
        yield from without_weights
        if self.subset:
            yield from dict.fromkeys(filter(None, (subset_problem(task, self.subset) for task in tasks)))
        names = [task["name"] for task in tasks]
        if len(set(names)) > 1:
            text = f"={self.compare}: a run of {names[1]}, which has no axes in common with {names[0]}"
            yield Problem("compare", text)

    @property
    def paths(self) -> dict[str, str]:
        """Folders that are not as in the run's configuration."""
        return {name: str(folder) for name, folder in (("data", self.data), ("cache", self.cache)) if folder}


HELP = f"""python {PROGRAM} [key=value ...]

Figures of the attentions of a finished or stopped run, and their numbers as csv.

{options_help(DiagnoseOptions, 19)}
"""


def diagnose_run(options: DiagnoseOptions, out: Path) -> list[Path]:
    """Draws one run, or two in the same pictures; returns the files in `out`, a png and a csv for each quantity."""
    from attnlab.report.diagnose.run_figures import Diagnosis, NamedRun, run_names

    folders = [options.diagnose, *([options.compare] if options.compare else [])]
    runs = [NamedRun(label, folder) for label, folder in zip(run_names(folders), folders, strict=True)]
    diagnosis = Diagnosis(options.paths, options.subset, options.examples, options.example)
    return diagnosis.draw(options.quantities, runs, out)


@command(lambda: HELP, prefix="report.py")
def diagnose_main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code. torch is imported when the words are right."""
    line = read_options(DiagnoseOptions, argv, folder_words(argv, ("diagnose", "compare")))
    if problems := unknown_options(DiagnoseOptions, line.others) + line.problems:
        raise ConfigError(problems, PROGRAM)
    options = line.complete()
    out = options.out or inner_folder(options.diagnose, "diagnosis")
    require_writable(out, ELSEWHERE)
    try:
        for file in diagnose_run(options, out):
            print(file)
            if file.suffix == ".png":
                print(f"  {caption_of(file)}")
    except ConfigError as error:
        raise RunError(str(error)) from None
    except OSError as error:
        raise RunError(f"cannot write {error.filename}: {error.strerror}; {ELSEWHERE}") from None
    return 0
