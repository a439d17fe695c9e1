"""Rows of an experiment's report, and the names of rows and columns that its hypotheses use.

A wrong name is refused before the first run: corrected later, the hypothesis would no longer be declared before.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.config.check import ConfigError
from attnlab.config.dotted_keys import MISSING, flatten, value_at
from attnlab.config.hypothesis_forms import form_problems
from attnlab.config.identity_sections import NOT_IDENTITY
from attnlab.config.message_text import hint, listed, show
from attnlab.config.nearest_word import nearest, nearest_key
from attnlab.config.report_block import Report
from attnlab.config.run_identity import run_label
from attnlab.config.type_check import build


def setting(key: str, config: Mapping[str, Any]) -> Any:
    """The value of a key: names for `model` and `task`, else the value at a dotted path; None if missing."""
    if key == "model":
        return config["model"]["name"]
    if key == "task":
        return run_label(config)
    found = value_at(config, key)
    return None if found is MISSING else found


def row_name(report: Report, config: Mapping[str, Any]) -> str:
    """The name of the row that a configuration belongs to."""
    joined = ", ".join(show(setting(key, config)) for key in report.rows)
    return str(report.row_names.get(joined, joined))


def unknown_column(report: Report, name: str) -> str:
    """The problem of a name that no column of a report has, with the nearest one; empty for a column."""
    columns = [*map(str, report.columns), *([report.average.name] if report.average else [])]
    return "" if name in columns else f"no column {name}{hint(nearest(name, columns))}; columns: {listed(columns)}"


def _average_problems(report: Report) -> list[str]:
    """Problems of a column that is the mean of others: no other columns, or unknown ones."""
    if report.average is None:
        return []
    names = [name for name in map(str, report.columns) if name != report.average.name]
    if not report.average.of:
        return [f"report.average.of=[]: expected some of the columns {listed(names)}"]
    if len(set(report.average.of)) < len(report.average.of):
        return [f"report.average.of={show(report.average.of)}: a column is named twice"]
    return [
        f"report.average.of: no other column {name}{hint(nearest(name, names))}; columns: {listed(names)}"
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
    columns = [one.column for one in report.hypotheses if one.column is not None]
    problems = [*form_problems(report), *_average_problems(report)]
    problems += [
        f"report.{name}: no run has the key {key}{hint(nearest_key(key, flatten(config)))}"
        for config in configs[:1]
        for name in ("rows", "best_over")
        for key in getattr(report, name)
        if key not in ("model", "task") and all(value_at(one, key) is MISSING for one in configs)
    ]
    problems += [f"report.hypotheses: {line}" for name in columns if (line := unknown_column(report, name))]
    keys = [word.split("=")[0].lstrip("+-") for word in argv if "=" in word]
    if all(key == "experiment" or key.split(".")[0] in {*NOT_IDENTITY, "hydra"} - {"seed"} for key in keys):
        rows = list(dict.fromkeys(row_name(report, config) for config in configs))
        named = dict.fromkeys(row for one in report.hypotheses for row in (one.row, one.other) if row)
        problems += [
            f"report.hypotheses: no such row {row}{hint(nearest(row, rows))}; rows: {listed(rows, 12)}"
            for row in named
            if row not in rows
        ]
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
