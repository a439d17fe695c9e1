"""A table as text: for the terminal, markdown, csv, LaTeX and json."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attnlab.config.suggest import listed
from attnlab.learn.metric_units import label, number
from attnlab.report.report_json import (
    CELL_HEADS,
    SEED_HEADS,
    Comparison,
    PublishedTable,
    PublishedValue,
    ReportCell,
    ReportColumn,
    ReportFile,
    ReportRow,
    ReportSeed,
    cell_lines,
    seed_lines,
)
from attnlab.report.table_types import Cell, Column, Table

NONE = "-"


def mean_and_sd(cell: Cell) -> str:
    """`46.1 ± 2.3 (5)`; with fewer finished runs than seeds `(3 of 5)`; seeds far apart are written out."""
    if cell.mean is None:
        states = dict.fromkeys(seed.state for seed in cell.seeds)
        return ", ".join("no number" if state == "finished" else state for state in states)
    unit, n, total = cell.column.unit, len(cell.values), len(cell.seeds)
    text = number(cell.mean, unit) + (f" ± {number(cell.sd, unit, like=cell.mean)}" if cell.sd is not None else "")
    text += f" ({n})" if n == total else f" ({n} of {total})"
    return f"{text} [{', '.join(number(value, unit) for value in cell.values.values())}]" if cell.scattered else text


def extreme(cell: Cell, best: bool) -> str:
    """`49.5 (seed 3)`."""
    found = cell.extreme(best)
    return NONE if found is None else f"{number(found[1], cell.column.unit)} (seed {found[0]})"


def published(cell: Cell) -> str:
    value = cell.published
    if value is None:
        return NONE
    if value.value is None:
        return value.text or NONE
    unit = cell.column.unit
    spread = f" ± {number(value.spread, unit, like=value.value)}" if value.spread is not None else ""
    return f"{number(value.value, unit)}{spread}{f' ({value.text})' if value.text else ''}"


def difference(cell: Cell) -> str:
    """`-0.8 (-0.35 sd)`."""
    if cell.difference is None:
        return NONE
    text = number(cell.difference, cell.column.unit, signed=True)
    return text if cell.difference_in_sd is None else f"{text} ({number(cell.difference_in_sd, '', signed=True)} sd)"


def details(table: Table) -> list[list[str]]:
    """Heads, then a line for every cell: ours, best and worst seed and, where something was published, that beside."""
    compare = any(cell.published is not None for cell in table.each())
    heads = [row_head(table), "", "ours ± sd (seeds)", "best", "worst"]
    lines = [
        [c.row, label(c.column.name, c.column.unit), mean_and_sd(c), extreme(c, True), extreme(c, False)]
        for c in table.each()
    ]
    if compare:
        heads += ["published", "ours - published"]
        lines = [[*line, published(c), difference(c)] for line, c in zip(lines, table.each(), strict=True)]
    return [heads, *lines]


def row_head(table: Table) -> str:
    """What the rows are of."""
    keys = table.report.rows
    return ", ".join(keys) if len(keys) <= 3 else "run"


def compared(comparison: Comparison, table: Table) -> str:
    """One sentence: the difference, its ends and what these are."""
    unit = next(column.unit for column in table.columns if column.name == comparison.column)
    ends = [number(value, unit, signed=True) for value in (comparison.difference, comparison.low, comparison.high)]
    rows = f"{comparison.row} - {comparison.against}"
    return f"{comparison.column}: {rows} = {ends[0]} [{ends[1]}, {ends[2]}] ({comparison.method})"


def markdown(table: Table, lines: Mapping[str, Sequence[str]]) -> str:
    """A page: the table as papers print it, every cell with its seeds, comparisons, and lists under their headings."""
    heads = [row_head(table), *(label(column.name, column.unit) for column in table.columns)]
    wide = [
        [row, *(_ours_and_published(cells.get(column.name)) for column in table.columns)]
        for row, cells in table.cells.items()
    ]
    parts = [f"# {table.report.title}"]
    parts += [f"Protocol: {table.report.protocol}."] if table.report.protocol else []
    cells = details(table)
    parts += [_grid(heads, wide), "## Seeds", _grid(cells[0], cells[1:])]
    for head, items in lines.items():
        if items:
            parts += [f"## {head}", "\n".join(f"- {item}" for item in items)]
    return "\n\n".join(parts) + "\n"


def _ours_and_published(cell: Cell | None) -> str:
    if cell is None:
        return ""
    return mean_and_sd(cell) + (f"; published {published(cell)}" if cell.published is not None else "")


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def cells_csv(report: ReportFile) -> str:
    """A line for every cell, numbers with all their digits."""
    return _csv(CELL_HEADS, cell_lines(report))


def seeds_csv(report: ReportFile) -> str:
    """A line for every run of every cell."""
    return _csv(SEED_HEADS, seed_lines(report))


def _csv(heads: Sequence[str], lines: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, heads, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def latex(table: Table) -> str:
    """A tabular with booktabs rules: for every column ours, and the published value where there is one."""
    compare = {
        column.name: any(row[column.name].published for row in table.cells.values() if column.name in row)
        for column in table.columns
    }
    heads, spans = [], []
    for column in table.columns:
        heads += ["ours", "published"] if compare[column.name] else ["ours"]
        width = 2 if compare[column.name] else 1
        spans.append(f"\\multicolumn{{{width}}}{{c}}{{{_tex(label(column.name, column.unit))}}}")
    body = []
    for row, cells in table.cells.items():
        line = [_tex(row)]
        for column in table.columns:
            cell = cells.get(column.name)
            line.append(_tex(mean_and_sd(cell)) if cell else "")
            if compare[column.name]:
                line.append(_tex(published(cell)) if cell else "")
        body.append(" & ".join(line) + r" \\")
    lines = [
        f"% {table.report.title}{f'; {table.report.protocol}' if table.report.protocol else ''}",
        f"\\begin{{tabular}}{{l{'r' * len(heads)}}}",
        r"\toprule",
        " & ".join(["", *spans]) + r" \\",
        " & ".join([_tex(row_head(table)), *heads]) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    escaped = text.replace("\\", r"\textbackslash ")
    for sign in "&%$#_{}":
        escaped = escaped.replace(sign, f"\\{sign}")
    # at the beginning of a row a bracket would be an option of the row before
    escaped = f"{{[}}{escaped[1:]}" if escaped.startswith("[") else escaped
    return escaped.replace(" ± ", r" $\pm$ ").replace("~", r"\textasciitilde ").replace("^", r"\textasciicircum ")


def record(table: Table, comparisons: Sequence[Comparison], more: Mapping[str, Any]) -> ReportFile:
    """A table as report.json holds it, for the page of all reports and for wandb.

    Args:
        more: the fields of `ReportFile` that are not in the table.
    """
    source = table.published
    known = source and PublishedTable(paper=source.paper, table=source.name, source=source.source, trials=source.trials)
    return ReportFile(
        title=table.report.title,
        protocol=table.report.protocol,
        published=known,
        columns=[ReportColumn(name=c.name, metric=_measured(c), unit=c.unit) for c in table.columns],
        rows=[
            ReportRow(name=row, cells=[_cell(cell) for cell in cells.values()]) for row, cells in table.cells.items()
        ],
        comparisons=list(comparisons),
        **more,
    )


def _measured(column: Column) -> str:
    return f"mean of {listed(column.of)}" if column.of else column.metric


def _cell(cell: Cell) -> ReportCell:
    value = cell.published
    return ReportCell(
        column=cell.column.name,
        mean=cell.mean,
        sd=cell.sd,
        n=len(cell.values),
        best=cell.extreme(True),
        worst=cell.extreme(False),
        bimodal=cell.bimodal,
        chosen=cell.chosen,
        published=value and PublishedValue(value=value.value, spread=value.spread, text=value.text),
        difference=cell.difference,
        difference_in_sd=cell.difference_in_sd,
        seeds=[
            ReportSeed(seed=s.seed, value=s.value, state=s.state, reason=s.reason, folder=s.place) for s in cell.seeds
        ],
    )
