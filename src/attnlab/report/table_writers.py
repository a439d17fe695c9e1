"""Writers of a table: markdown, LaTeX, and the content of report.json."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from attnlab.learn.metric_units import label, number
from attnlab.report import report_record as records
from attnlab.report.analysis_record import Comparison
from attnlab.report.data_seed_section import spreads
from attnlab.report.declarations.hypothesis_answers import answers
from attnlab.report.failures.failure_record import SuccessReport
from attnlab.report.failures.failure_tables import HEAD, failed, failure_tables
from attnlab.report.length_tables import beside, markdown_lengths
from attnlab.report.runs.read_runs import short_name
from attnlab.report.shortcuts import rows_of_table
from attnlab.report.statistics.differences import NORMAL, p_text
from attnlab.report.statistics.test_set_error import error_text
from attnlab.report.table_types import Cell, Table

NONE = "-"
FIRST = ("Hypotheses",)
"""headings of sentences that stand above the table"""
T = TypeVar("T")


def mean_and_sd(cell: Cell) -> str:
    """`46.1 ± 2.3 (5)`; `46.1 (5)` if all seeds have the same number, `(3 of 5)` if some have none; with the length
    that carries the mean."""
    if cell.mean is None:
        return ", ".join(dict.fromkeys(seed.named_state for seed in cell.seeds))
    unit, n, total = cell.column.unit, len(cell.values), len(cell.seeds)
    text = number(cell.mean, unit) + (f" ± {number(cell.sd, unit, like=cell.mean)}" if cell.sd else "")
    data = f", {cell.data_sets} data seeds" if cell.data_sets > 1 else ""
    told = f" ({n if n == total else f'{n} of {total}'}{data})"
    return text + told + beside(cell.one_length)


def each_seed(cell: Cell) -> str:
    """The number of every seed, in the order of the seeds: `44.1, 46.2, 48.0`."""
    return ", ".join(number(value, cell.column.unit) for value in cell.values.values()) or NONE


def extreme(cell: Cell, best: bool) -> str:
    """The best or the worst run: `49.5 (seed 3)`."""
    found = cell.extreme(best)
    return NONE if found is None else f"{number(found[1], cell.column.unit)} (seed {found[0]})"


def published(cell: Cell) -> str:
    """The published value with its spread: `46.9 ± 1.2`."""
    value = cell.published
    if value is None:
        return NONE
    if value.value is None:
        return value.text or NONE
    unit = cell.column.unit
    spread = f" ± {number(value.spread, unit, like=value.value)}" if value.spread is not None else ""
    return f"{number(value.value, unit)}{spread}{f' ({value.text})' if value.text else ''}"


def difference(cell: Cell) -> str:
    """Our mean minus the published value: `-0.8 (-0.35 sd)`."""
    if cell.difference is None:
        return NONE
    text = number(cell.difference, cell.column.unit, signed=True)
    return text if cell.difference_in_sd is None else f"{text} ({number(cell.difference_in_sd, '', signed=True)} sd)"


def details(table: Table) -> list[list[str]]:
    """Heads, then a line for every cell: ours, every seed, the error of the test set if a cell has one and, if anything
    was published, the comparison."""
    columns: list[tuple[str, Callable[[Cell], str]]] = [
        ("ours ± sd (seeds)", mean_and_sd),
        ("each seed", each_seed),
        ("best", partial(extreme, best=True)),
        ("worst", partial(extreme, best=False)),
    ]
    if any(cell.test_set_error is not None for cell in table.each()):
        columns.append(("test set ±", lambda cell: error_text(cell) or NONE))
    if any(cell.published for cell in table.each()):
        columns += [("published", published), ("ours - published", difference)]
    lines = [[row_head(table), "", *(head for head, _ in columns)]]
    for cell in table.each():
        lines.append([cell.row, label(cell.column.name, cell.column.unit), *(write(cell) for _, write in columns)])
    empty, units = [NONE] * (len(columns) - 1), {column.name: column.unit for column in table.columns}
    for name, numbers in rows_of_table(table).items():
        lines += [[name, label(column, units[column]), text, *empty] for column, text in numbers.items()]
    return lines


def row_head(table: Table) -> str:
    """The head above the names of rows."""
    keys = table.report.rows
    return ", ".join(keys) if len(keys) <= 3 else "run"


def comparison_lines(comparisons: Sequence[Comparison], table: Table) -> list[str]:
    """A sentence for each comparison; where one has a t interval, also on the assumption behind it."""
    assumed = [NORMAL] if any(one.p is not None and one.difference is not None for one in comparisons) else []
    return [*(_compared(comparison, table) for comparison in comparisons), *assumed]


def _compared(comparison: Comparison, table: Table) -> str:
    """A comparison in one sentence: the difference, its interval, the method, the test and every seed."""
    unit = next(column.unit for column in table.columns if column.name == comparison.column)
    rows = f"{comparison.row} - {comparison.against}"
    by = "data seed" if comparison.by_data else "seed"
    seeds = [number(value, unit, signed=True) for _, value in comparison.seeds]
    how = "; ".join([str(comparison.method), *tested(comparison), *([f"by {by} {', '.join(seeds)}"] if seeds else [])])
    values = comparison.difference, comparison.low, comparison.high
    ends = [number(value, unit, signed=True) for value in values if value is not None]
    said = f" = {ends[0]} [{ends[1]}, {ends[2]}]" if len(ends) == len(values) else ""
    return f"{comparison.column}: {rows}{said} ({how})"


def tested(comparison: Comparison) -> list[str]:
    """The p-values of a comparison in words; empty without a test."""
    if comparison.p is None or comparison.corrected is None:
        return []
    return [f"{p_text(comparison.p)}, corrected {p_text(comparison.corrected)}"]


def markdown(table: Table, lines: Mapping[str, Sequence[str]], success: SuccessReport | None = None) -> str:
    """Answers to hypotheses, a table as papers print it, every cell with its seeds, lists under their headings."""
    heads = [row_head(table), *(label(column.name, column.unit) for column in table.columns)]
    wide = [
        [row, *(_ours_and_published(cells.get(column.name)) for column in table.columns)]
        for row, cells in table.cells.items()
    ]
    if success:
        heads, wide = [*heads, HEAD], [[*row, failed(success.of(row[0]))] for row in wide]
    wide += [
        [name, *(numbers.get(column.name, "") for column in table.columns), *([NONE] if success else [])]
        for name, numbers in rows_of_table(table).items()
    ]
    parts = [f"# {_one_line(table.report.title)}"]
    parts += [f"Protocol: {_one_line(table.report.protocol)}."] if table.report.protocol else []
    texts = {
        head: [f"## {head}", "\n".join(f"- {_one_line(item)}" for item in items)]
        for head, items in lines.items()
        if items
    }
    parts += [part for head in FIRST for part in texts.pop(head, [])]
    parts += [_grid(heads, *wide), "## Seeds", _grid(*details(table))]
    if success:
        for one in failure_tables(success):
            parts += [f"## {one.title}", _grid(one.heads, *one.rows)]
        parts += ["\n".join(f"- {note}" for note in success.notes)] if success.notes else []
    parts += markdown_lengths(table, _grid)
    parts += [part for text in texts.values() for part in text]
    # names and reasons come from run folders: nothing in them is to be read as HTML, as a link or as a picture
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", "\n\n".join(parts)).replace("](", r"]\(") + "\n"


def _ours_and_published(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return mean_and_sd(cell) + (f"; published {published(cell)}" if cell.published is not None else "")


def _grid(heads: Sequence[str], *rows: Sequence[str]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(_in_grid, line)) + " |" for line in lines)


def _in_grid(cell: str) -> str:
    return _one_line(cell.replace("|", "\\|"))


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def latex(table: Table, success: SuccessReport | None = None) -> str:
    """A tabular with booktabs rules: for every column ours, and the published value if there is one."""
    heads, spans, body = [], [], {row: [_tex(row)] for row in table.cells}
    shortcuts = rows_of_table(table)
    below = {name: [_tex(name)] for name in shortcuts}
    for column in table.columns:
        width = 2 if any(cell.published for cell in table.each(column)) else 1
        heads += ["ours", "published"][:width]
        spans.append(f"\\multicolumn{{{width}}}{{c}}{{{_tex(label(column.name, column.unit))}}}")
        for row, cells in table.cells.items():
            cell = cells.get(column.name)
            body[row] += [_tex(write(cell)) if cell else "" for write in (mean_and_sd, published)[:width]]
        for name, line in below.items():
            line += [shortcuts[name].get(column.name, ""), ""][:width]
    if success:
        heads, spans = [*heads, _tex(HEAD)], [*spans, _tex(success.column)]
        body = {row: [*line, _tex(failed(success.of(row)))] for row, line in body.items()}
        below = {name: [*line, ""] for name, line in below.items()}
    lines = [
        f"% {_one_line('; '.join(filter(None, [table.report.title, table.report.protocol])))}",
        f"\\begin{{tabular}}{{l{'r' * len(heads)}}}",
        r"\toprule",
        " & ".join(["", *spans]) + r" \\",
        " & ".join([_tex(row_head(table)), *heads]) + r" \\",
        r"\midrule",
        *(" & ".join(line) + r" \\" for line in (*body.values(), *below.values())),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    escaped = _one_line(text).replace("\\", r"\textbackslash ")
    for sign in "&%$#_{}":
        escaped = escaped.replace(sign, f"\\{sign}")
    # LaTeX reads a bracket at the beginning of a row as an option of the row above
    escaped = f"{{[}}{escaped[1:]}" if escaped.startswith("[") else escaped
    return escaped.replace(" ± ", r" $\pm$ ").replace("~", r"\textasciitilde ").replace("^", r"\textasciicircum ")


def record(table: Table, comparisons: Sequence[Comparison], more: Mapping[str, Any]) -> records.ReportFile:
    """The content of report.json, which the page and wandb read.

    Args:
        more: the fields of `ReportFile` that are not in the table.
    """
    return records.ReportFile(
        title=table.report.title,
        protocol=table.report.protocol,
        published=None
        if table.published is None
        else _taken(records.PublishedTable, table.published, table=table.published.name),
        columns=[_taken(records.ReportColumn, column, metric=column.measured) for column in table.columns],
        rows=[
            records.ReportRow(name=row, cells=list(map(_cell, cells.values()))) for row, cells in table.cells.items()
        ],
        comparisons=list(comparisons),
        hypotheses=answers(table),
        highlight=table.highlight,
        data_seeds=spreads(table),
        **more,
    )


def _cell(cell: Cell) -> records.ReportCell:
    return _taken(
        records.ReportCell,
        cell,
        column=cell.column.name,
        n=len(cell.values),
        best=cell.extreme(True),
        worst=cell.extreme(False),
        shortcuts=list(cell.shortcuts),
        published=cell.published and _taken(records.PublishedValue, cell.published),
        seeds=[replace(seed, folder=seed.folder and short_name(Path(seed.folder))) for seed in cell.seeds],
    )


def _taken(kind: type[T], source: Any, **given: Any) -> T:
    """A record that takes the fields not given from the attributes of an object."""
    return kind(
        **{one.name: getattr(source, one.name) for one in fields(cast(Any, kind)) if one.name not in given}, **given
    )
