"""Rows of an experiment's report, and the names of rows and columns that its hypotheses use.

A wrong name is refused before the first run: corrected later, the hypothesis would no longer be declared before.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attnlab.config.dotted_keys import MISSING, flatten, value_at
from attnlab.config.message_text import hint, listed, show
from attnlab.config.nearest_word import nearest, nearest_key
from attnlab.config.problem import ConfigError, Problem
from attnlab.config.report_block import FORMS, Hypothesis, Report
from attnlab.config.run_identity import NOT_IDENTITY, run_label
from attnlab.config.validation.type_check import build

SIZES = ("at_least", "within", "not_worse_by")
"""keys that state a size; a hypothesis has one of them at most"""


def form_problems(report: Report) -> list[Problem]:
    """Problems of the hypotheses of a report that have no form or several; empty if all are sound."""
    return [
        problem
        for at, hypothesis in enumerate(report.hypotheses)
        for problem in _form_problems(f"report.hypotheses.{at}", hypothesis, report)
    ]


def _form_problems(key: str, hypothesis: Hypothesis, report: Report) -> Iterator[Problem]:
    forms = [name for name in FORMS if getattr(hypothesis, name) is not None]
    sizes = [name for name in SIZES if getattr(hypothesis, name) is not None]
    form, of_column = hypothesis.form, ("than", "varies_less_than")
    if len(forms) != 1:
        found = f", found {listed(forms)}" if forms else ""
        yield Problem(key, f": expected one of {listed(FORMS)}{found}")
    elif hypothesis.row == hypothesis.other:
        yield Problem(f"{key}.{form}", f"={show(hypothesis.other)}: a row is compared with itself; name another row")
    elif form not in of_column and report.success is None:
        yield Problem(f"{key}.{form}", f"={hypothesis.other}: needs report.success, which says when a run fails")
    elif form == "sooner_than" and report.success and report.success.validation is None:
        text = f"={hypothesis.other}: needs report.success.validation, the logged metric that reaches the threshold"
        yield Problem(f"{key}.{form}", text)
    elif form in of_column and hypothesis.column is None:
        yield Problem(f"{key}.column", ": missing; expected a column of the report")
    aside = [*([] if form in of_column else ["column"]), *([] if form == "than" else [*SIZES, "given", "spread"])]
    if superfluous := [name for name in aside if len(forms) == 1 and getattr(hypothesis, name) is not None]:
        value = show(getattr(hypothesis, superfluous[0]))
        text = f"={value}: {form} has no {listed(superfluous)}; leave it out"
        yield Problem(f"{key}.{superfluous[0]}", text)
    if hypothesis.given is not None and hypothesis.given == hypothesis.column:
        yield Problem(f"{key}.given", f"={hypothesis.given}: a column is adjusted for itself; name another column")
    if len(sizes) > 1:
        yield Problem(key, f": expected one of {listed(SIZES)}, found {listed(sizes)}")
    if hypothesis.direction != "better" and (form != "than" or hypothesis.within or hypothesis.not_worse_by):
        text = f"={hypothesis.direction}: goes with a difference only (than, at_least); leave it out"
        yield Problem(f"{key}.direction", text)


def setting(key: str, config: Mapping[str, Any]) -> Any:
    """The value of a key: names for `model` and `task`, else the value at a dotted path; None if missing."""
    if key == "model":
        return config["model"]["name"]
    if key == "task":
        return run_label(config)
    value = value_at(config, key)
    return None if value is MISSING else value


def row_name(report: Report, config: Mapping[str, Any]) -> str:
    """The name of the row that a configuration belongs to."""
    joined = ", ".join(show(setting(key, config)) for key in report.rows)
    return str(report.row_names.get(joined, joined))


def unknown_column(report: Report, name: str) -> str:
    """The problem of a name that no column of a report has, with the nearest one; empty for a column."""
    columns = [*map(str, report.columns), *([report.average.name] if report.average else [])]
    return "" if name in columns else f"no column {name}{hint(nearest(name, columns))}; columns: {listed(columns)}"


def _column_problems(report: Report) -> list[Problem]:
    """Problems of columns that are neither a metric nor a metric of some runs."""
    return [
        Problem(f"report.columns.{name}", f"={show(value)}: expected a metric, or metric: ... and where: ...")
        for name, value in report.columns.items()
        if not isinstance(value, str)
        and not (isinstance(value, Mapping) and {"metric"} <= value.keys() <= {"metric", "where"})
    ]


def _average_problems(report: Report) -> list[Problem]:
    """Problems of a column that is the mean of others: no other columns, or unknown ones."""
    if report.average is None:
        return []
    key = "report.average.of"
    names = [name for name in map(str, report.columns) if name != report.average.name]
    if not report.average.of:
        return [Problem(key, f"=[]: expected some of the columns {listed(names)}")]
    if len(set(report.average.of)) < len(report.average.of):
        return [Problem(key, f"={show(report.average.of)}: a column is named twice")]
    return [
        Problem(key, f": no other column {name}{hint(nearest(name, names))}; columns: {listed(names)}")
        for name in report.average.of
        if name not in names
    ]


def require_known_names(
    block: Mapping[str, Any] | None, configs: Sequence[Mapping[str, Any]], argv: Sequence[str]
) -> None:
    """Checks the hypotheses of an experiment: their forms, and the rows and columns that they name.

    Args:
        block: the `report:` block, of the right types.
        configs: of all jobs.
        argv: the command line; one that narrows the experiment may lack rows, which are then not checked.

    Raises:
        ConfigError: a wrong form; no such row or column, with the nearest name.
    """
    if block is None:
        return
    report = build(Report, block)
    problems = [*_column_problems(report), *form_problems(report), *_average_problems(report)]
    of_keys = [
        Problem(f"report.{name}", f": no run has the key {key}{hint(nearest_key(key, flatten(config)))}")
        for config in configs[:1]
        for name in ("rows", "best_over")
        for key in getattr(report, name)
        if key not in ("model", "task") and all(value_at(each, key) is MISSING for each in configs)
    ]
    problems += of_keys
    problems += [
        Problem(f"report.hypotheses.{at}.{key}", f": {text}")
        for at, each in enumerate(report.hypotheses)
        for key in ("column", "given")
        if (name := getattr(each, key)) is not None and (text := unknown_column(report, name))
    ]
    keys = [word.split("=")[0].lstrip("+-") for word in argv if "=" in word]
    if not of_keys and all(
        key == "experiment" or key.split(".")[0] in {*NOT_IDENTITY, "hydra"} - {"seed"} for key in keys
    ):
        rows = list(dict.fromkeys(row_name(report, config) for config in configs))
        text = listed(rows, 12, separator="; ")
        problems += [
            Problem(f"report.hypotheses.{at}", f": no such row {row}{hint(nearest(row, rows))}; rows: {text}")
            for at, each in enumerate(report.hypotheses)
            for row in (each.row, each.other)
            if row and row not in rows
        ]
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
