"""Reader of run folders for reports: the state of a run, the reason, its numbers."""

import ast
import glob
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import attnlab
from attnlab.analysis.gradient_norm_variation import relative_sd
from attnlab.config.classes.recorded_code import Code, recorded_code
from attnlab.config.classes.words import kind_path
from attnlab.config.dotted_keys import flatten
from attnlab.config.message_text import counted, show
from attnlab.config.report_block import DATA_SEED, Report
from attnlab.config.run_identity import comparable, differences
from attnlab.config.targets import find_module
from attnlab.config.validation.report_names import row_name, setting
from attnlab.data.task_spec import SEQUENCE_METRICS
from attnlab.learn.metric_units import LARGEST_OF, NOT_FINITE, OF_RUNS, STEP_TIME, as_float, problem, scaled, summary_of
from attnlab.report.analysis_record import DIVERGED
from attnlab.run.provenance import COMPARABLE_VERSIONS
from attnlab.run.read_run_files import Missing, Unreadable, read_config, read_result, read_rows, read_status
from attnlab.run.run_lock import is_alive

NOT_BEGUN = ("missing", "other settings")
"""states of runs that have not started; a folder with other settings holds another run"""
WITHOUT_OUTCOME = (*NOT_BEGUN, "other version", "unreadable")
"""states of folders without an outcome of this version"""
MOST_COUNTED = 10**12
"""of anything counted; larger numbers are damage"""
TOKENS = "accuracy"
"""counts tokens in a language model, else examples"""


def grouped(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """The first parts of pairs by their second parts, in order."""
    groups: dict[Any, list[Any]] = defaultdict(list)
    for member, key in pairs:
        groups[key].append(member)
    return dict(groups)


@dataclass
class ReportRun:
    """A run as its folder has it, or a run that a report expects and whose folder is missing.

    state: finished, missing, running, interrupted, failed, stopped, unreadable, other version, other settings.
    log_every: a summary of logged values takes only steps that are multiples of it, so that runs that logged more often
        than the experiment asks are comparable; 0 = all steps.
    damaged: which part of metrics.csv cannot be read, in words; set when it is read.
    data: version and hash of the data that it was trained on.
    declared: the `report:` blocks that it was trained under, each with the step and commit at which it began.
    trained: seconds of training, of an unfinished run until its last checkpoint; None = not known.
    code: the code of every part of it in turn.
    """

    folder: Path
    config: Mapping[str, Any]
    state: str
    reason: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    log_every: int = 0
    damaged: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    declared: Sequence[Mapping[str, Any]] = ()
    trained: float | None = None
    code: Sequence[Code] = ()

    @property
    def seed(self) -> int:
        return self.config["seed"]

    @property
    def data_seed(self) -> int | None:
        """The seed of the data; None for tasks without one."""
        return setting(DATA_SEED, self.config)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The flattened configuration without seeds (the folder of a warm start ends in one) and data seeds."""
        flat = flatten(comparable(self.config))
        flat.pop(DATA_SEED, None)
        begun = {k: re.sub(r"/seed\d+/?$", "", str(flat[k])) for k in ("from_run", "task.from_run") if flat.get(k)}
        return flat | begun

    def value(self, metric: str) -> float | None:
        """A number of a finished run in its unit (percent, millions), `val/...` at the selected step, `train/...` as it
        was logged last; None without."""
        if self.state != "finished":
            return None
        number = self._recorded(metric)
        return None if number is None or problem(metric, number) else scaled(metric, number)

    def overflows(self, metric: str) -> bool:
        """Whether a finished run has a number that is not finite."""
        number = self._recorded(metric) if self.state == "finished" else None
        return number is not None and problem(metric, number) == NOT_FINITE

    def examples(self, metric: str) -> int | None:
        """The number of answers that a share is over: test examples, or tokens; None where the result lacks it."""
        part, _, name = metric.rpartition("/")
        kind = class_constant(self.config["task"].get("_target_", ""), "kind")
        of_tokens = name == TOKENS and class_constant(kind_path(kind or ""), "counts_tokens")
        counts = self.result.get("counts", {})
        number = counts.get(f"{part}/tokens" if of_tokens else part) if isinstance(counts, Mapping) else None
        return number if isinstance(number, int) and 0 < number <= MOST_COUNTED else None

    def lacking(self, metric: str) -> str:
        """The reason why a finished run has no such number."""
        if metric.startswith(("val/", "train/")) or summary_of(metric):
            try:
                read_rows(self.folder / "metrics.csv")
            except Unreadable as error:
                return error.short
        number = self._recorded(metric)
        if number is None and summary_of(metric):
            return f"its values were logged every {self.logged_every} steps, not every {self.log_every}"
        if number is None:
            return f"its result has no {metric}"
        return f"its {metric} is {as_float(number):g}, {problem(metric, number)}"

    @property
    def logged_every(self) -> int:
        """Steps between logged values."""
        return max(self.config.get("train", {}).get("log_every", 1), 1)

    def _recorded(self, metric: str) -> float | None:
        if metric in OF_RUNS:
            return self.result.get(metric)
        if summary_of(metric):
            return self._summary(metric)
        if metric.startswith("val/") and metric not in self.result.get("metrics", {}):
            selection = self.result.get("selection", {})
            if metric in selection:
                return selection[metric]
            return next((value for step, _, value in self.logged((metric,)) if step == selection.get("step")), None)
        if metric.startswith("train/") and metric not in self.result.get("metrics", {}):
            return next((value for _, _, value in reversed(self.logged((metric,)))), None)
        return self.result.get("metrics", {}).get(metric)

    def _summary(self, metric: str) -> float | None:
        """The number of a summary of logged values (`summary_of`)."""
        if (largest := self.largest_of_all_steps(metric)) is not None:
            return largest
        function, name = summary_of(metric) or ("", "")
        if self.log_every and self.log_every % self.logged_every:
            return None
        values = [value for step, _, value in self.logged((name,)) if not step % (self.log_every or 1)]
        return relative_sd(values) if function == "relative_sd" else max(values, default=None)

    def largest_of_all_steps(self, metric: str) -> float | None:
        """The number of `max(...)` over all steps; None for other metrics, and where only values of logged steps are
        known: runs of former versions recorded no others.
        """
        function, name = summary_of(metric) or ("", "")
        if function != "max":
            return None
        rows = self.logged((name, f"{name}{LARGEST_OF}"))
        largest = {step: value for step, other, value in rows if other != name}
        # a step without a finite value may have none
        needed = {step for step, other, value in rows if other == name and math.isfinite(value)}
        return max(largest.values()) if largest and needed <= largest.keys() else None

    @property
    def diverged(self) -> bool:
        """Whether training ended because the loss or a weight was not finite."""
        return self.state == "failed" and self.reason.startswith(DIVERGED)

    def logged(self, names: Sequence[str] = ()) -> list[tuple[int, str, float]]:
        """Step, name and value of these metrics, or of all, in metrics.csv; damaged lines are left out."""
        try:
            rows, lines = read_rows(self.folder / "metrics.csv")
        except Unreadable as error:
            self.damaged = f"all: it {error.short.partition(' ')[2]}"
            return []
        self.damaged = counted(lines, "damaged line") if lines else ""
        return [row for row in rows if not names or row[1] in names]


def look(folder: Path, expected: Mapping[str, Any] | None = None) -> ReportRun:
    """Reads one run folder, which should have the expected configuration; None = any.

    Raises:
        Unreadable: its configuration cannot be read, and none is expected.
    """
    try:
        config = read_config(folder / "config.yaml", of_classes=expected is not None)
    except Unreadable as error:
        if expected is None:
            raise
        state = ("missing", "") if isinstance(error, Missing) else ("unreadable", error.short)
        return ReportRun(folder, expected, *state)
    if expected is not None and (changed := differences(comparable(config), comparable(expected))):
        return ReportRun(folder, expected, "other settings", "; ".join(changed))
    try:
        status, result = read_status(folder / "status.json"), read_result(folder / "result.json") or {}
    except Unreadable as error:
        return ReportRun(folder, config, "unreadable", error.short)
    if result and STEP_TIME in status:
        result = {STEP_TIME: status[STEP_TIME], **result}
    seconds, data = result.get("seconds", status.get("seconds")), result.get("data") or status.get("data") or {}
    return ReportRun(
        folder,
        config,
        *_state(folder, config, status, result, data.get("version")),
        result,
        log_every=(expected or {}).get("train", {}).get("log_every", 0),
        declared=status.get("declared", []),
        data=data,
        trained=None if seconds is None or problem("seconds", seconds) else as_float(seconds),
        code=recorded_code(result or status),
    )


def _state(
    folder: Path, config: Mapping[str, Any], status: Mapping[str, Any], result: Mapping[str, Any], data: Any
) -> tuple[str, str]:
    """State and reason, from status.json and result.json; `data` is the version of the run's data, None if unknown."""
    state, reason = status.get("state", ""), str(status.get("reason", "")).split("\n")[0]
    if result or state == "failed":
        # a run that diverged counts as a failure, so that its version matters too
        attnlab_version = result.get("versions", {}).get("attnlab") or status.get("attnlab")
        now, other = class_constant(config["task"].get("_target_", ""), "version"), ""
        if attnlab_version and attnlab_version not in COMPARABLE_VERSIONS:
            other = f"made by attnlab {attnlab_version}, this is {attnlab.__version__}"
        elif None not in (data, now) and str(data) != str(now):
            other = f"made on version {data} of the task's data, this is {now}"
        if other:
            return "other version", other if result else f"{other}; it failed: {reason}"
    if result:
        return "finished", ""
    if state == "finished":
        return "unreadable", "status.json says finished and there is no result.json"
    saved = f"last checkpoint at step {status['step']}" if status.get("step") else "no checkpoint yet"
    if state == "running":
        gone = "interrupted", f"its process (pid {status.get('pid')}) is gone; {saved}"
        return (state, f"{_logged_until(folder)}{saved}") if is_alive(status, folder) else gone
    return (state, reason or saved) if state in ("failed", "stopped") else ("missing", "nothing was trained yet")


def _logged_until(folder: Path) -> str:
    """The step that a running run has logged last, in words; empty without one."""
    with suppress(Unreadable):
        rows, _ = read_rows(folder / "metrics.csv")
        return f"step {max(step for step, *_ in rows)}, " if rows else ""
    return ""


def matched_paths(pattern: str) -> list[Path]:
    """The paths that a glob matches. The name of an existing path is no glob, as it may hold brackets."""
    return [Path(pattern)] if Path(pattern).exists() else [Path(path) for path in glob.glob(pattern, recursive=True)]


def found_below(folder: Path, name: str) -> list[Path]:
    """The files of a name below a folder, but for hidden folders below it: these hold copies, parts and worktrees."""
    files = folder.rglob(name)
    return [file for file in files if not any(part.startswith(".") for part in file.relative_to(folder).parts)]


def run_folders(pattern: str) -> list[Path]:
    """Run folders at or below the paths that a glob matches, each once, in order of their names; by status.json, too,
    so that a run that has lost its config.yaml is named."""
    folders: set[Path] = set()
    for path in matched_paths(pattern):
        for name in ("config.yaml", "status.json"):
            files = [path / name] if (path / "config.yaml").exists() else found_below(path, name)
            folders.update(file.parent for file in files)
    return sorted(folders)


def begun_beside(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The begun runs with the settings of these runs that are not among them: other seeds and data seeds, in the
    folders of the same task and model."""
    shown = {run.folder for run in runs}
    firsts = {run.folder.parent: run for run in runs}.values()
    other_runs = []
    for place, settings in grouped((run.settings, run.folder.parent.parent) for run in firsts).items():
        for folder in (folder for folder in sorted(place.glob("*/seed*")) if folder not in shown):
            try:
                run = look(folder)
            except Unreadable:
                continue
            if run.state not in WITHOUT_OUTCOME and run.settings in settings:
                other_runs.append(run)
    return other_runs


def short_name(folder: Path) -> str:
    """`<task>/<model>/<tag>/seed<k>`; a report does not say where all runs are."""
    return "/".join(folder.parts[-4:])


def runs_by_row(report: Report, runs: Sequence[ReportRun]) -> dict[str, list[ReportRun]]:
    """The runs of every row by its name."""
    return grouped((run, row_name(report, run.config)) for run in runs)


def meets(value: Any, wanted: Any) -> bool:
    """Whether a value is the one asked for, or one of several."""
    options = wanted if isinstance(wanted, list) else [wanted]
    return any(value == option or show(value) == show(option) for option in options)


def is_share(metric: str) -> bool:
    """Whether a metric is the share of right answers in a test set; F1 and correlations are not."""
    return metric.startswith("test") and metric.rpartition("/")[2] in (TOKENS, *SEQUENCE_METRICS)


@cache
def class_constant(path: str, name: str) -> Any:
    """A literal attribute of the class at a dotted path, or of a base in its own package or in attnlab.

    Read from the source, as a report imports no torch. None if there is no such class or attribute, or no literal.
    """
    module, _, class_name = path.rpartition(".")
    spec = find_module(module)
    try:
        tree = ast.parse(Path((spec and spec.origin) or "").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    sources: dict[str, str] = {}
    classes: dict[str, ast.ClassDef] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            sources |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = node
    if class_name not in classes:
        return None
    for item in classes[class_name].body:
        match item:
            case (
                ast.Assign(targets=[ast.Name(id=target)], value=value)
                | ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value)
            ) if target == name:
                with suppress(ValueError):
                    if (literal := ast.literal_eval(value)) is not None:
                        return literal
    names = [ast.unparse(base).partition("[")[0] for base in classes[class_name].bases]
    bases = [sources.get(base, f"{module}.{base}") for base in names]
    ours = [base for base in bases if base.partition(".")[0] in (module.partition(".")[0], "attnlab")]
    return next((inherited for base in ours if (inherited := class_constant(base, name)) is not None), None)
