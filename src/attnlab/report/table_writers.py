"""Writers of a report: terminal, markdown, LaTeX, and the sentences on differences of rows."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.config.message_text import table_console
from attnlab.learn.metric_units import label, number
from attnlab.report import report_record as records
from attnlab.report.analysis_record import Comparison
from attnlab.report.data_seed_section import spreads
from attnlab.report.failures.failure_tables import failure_tables
from attnlab.report.length_tables import HEADING, length_tables
from attnlab.report.published_numbers import Published
from attnlab.report.runs.read_runs import short_name
from attnlab.report.statistics.differences import NORMAL, p_text
from attnlab.report.table_types import Table
from attnlab.report.text_tables import (
    FAILED,
    TextTable,
    cell_by_cell,
    failed,
    glance,
    mean_and_sd,
    published,
    shortcut_rows,
)

if TYPE_CHECKING:
    from rich.table import Table as Grid

FIRST = ("Hypotheses",)
"""headings of sentences that stand above the table"""


def row_head(keys: Sequence[str]) -> str:
    """The head above the names of rows, by the keys that make them."""
    return ", ".join(keys) if len(keys) <= 3 else "run"


def comparison_lines(report: records.ReportFile) -> list[str]:
    """A sentence for each comparison; where one has a t interval, also on the assumption behind it."""
    compared, units = report.comparisons, report.units
    assumed = [NORMAL] if any(one.p is not None and one.difference is not None for one in compared) else []
    return [*(_compared(comparison, units[comparison.column]) for comparison in compared), *assumed]


def _compared(comparison: Comparison, unit: str) -> str:
    """A comparison in one sentence: the difference, its interval, the method, the test and every seed."""
    values = comparison.difference, comparison.low, comparison.high
    ends = [number(value, unit, signed=True) for value in values if value is not None]
    difference = f" = {ends[0]} [{ends[1]}, {ends[2]}]" if len(ends) == len(values) else ""
    how = [str(comparison.method)]
    if comparison.p is not None and comparison.corrected is not None:
        how.append(f"{p_text(comparison.p)}, corrected {p_text(comparison.corrected)}")
    if seeds := [number(value, unit, signed=True) for _, value in comparison.seeds]:
        how.append(f"by {'data seed' if comparison.by_data else 'seed'} {', '.join(seeds)}")
    return f"{comparison.column}: {comparison.row} - {comparison.against}{difference} ({'; '.join(how)})"


def print_report(report: records.ReportFile, lines: Mapping[str, Sequence[str]], head: str) -> None:
    """Prints the answers to hypotheses, every cell with its seeds, failures, then the other sentences.

    Args:
        head: above the names of rows.
    """
    console = table_console()

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    _print_lines({name: lines[name] for name in FIRST})
    console.print(_terminal_grid(cell_by_cell(report, head), report.title))
    if report.protocol:
        say(f"protocol: {report.protocol}")
    if report.success:
        print()
        for table in failure_tables(report.success):
            say(table.title)
            console.print(_terminal_grid(table))
        print("\n".join(f"  {note}" for note in report.success.notes))
    about, tables = length_tables(report)
    if about:
        say(f"\n{HEADING}. {about}")
    for table in tables:
        console.print(_terminal_grid(table))
    _print_lines({name: items for name, items in lines.items() if name not in FIRST})
    print()


def _terminal_grid(table: TextTable, title: str | None = None) -> "Grid":
    """A table for the terminal; a name that is also in the line above is left out."""
    # rich takes a tenth of a second
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as Grid

    grid = Grid(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for at, head in enumerate(table.heads):
        grid.add_column(head, justify="right" if at >= table.words else "left", overflow="fold")
    last = None
    for name, *cells in table.rows:
        grid.add_row("" if name == last else name, *cells)
        last = name
    return grid


def _print_lines(lines: Mapping[str, Sequence[str]]) -> None:
    """Prints each list of sentences under its heading."""
    for head, items in lines.items():
        if items:
            print("\n".join([f"\n{head}", *(f"  {item}" for item in items)]))


def markdown(report: records.ReportFile, lines: Mapping[str, Sequence[str]], head: str = "row") -> str:
    """Answers to hypotheses, a table as papers print it, every cell with its seeds, lists under their headings.

    Args:
        head: above the names of rows.
    """
    parts = [f"# {_one_line(report.title)}"]
    parts += [f"Protocol: {_one_line(report.protocol)}."] if report.protocol else []
    texts = {
        name: [f"## {name}", "\n".join(f"- {_one_line(item)}" for item in items)]
        for name, items in lines.items()
        if items
    }
    parts += [part for name in FIRST for part in texts.pop(name, [])]
    parts += [_grid(glance(report, head)), "## Seeds", _grid(cell_by_cell(report, head))]
    if report.success:
        parts += [part for table in failure_tables(report.success) for part in (f"## {table.title}", _grid(table))]
        parts += ["\n".join(f"- {note}" for note in report.success.notes)] if report.success.notes else []
    about, tables = length_tables(report)
    parts += [f"## {HEADING}", about, *map(_grid, tables)] if about else []
    parts += [part for text in texts.values() for part in text]
    # names and reasons come from run folders: nothing in them is to be read as HTML, as a link or as a picture
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", "\n\n".join(parts)).replace("](", r"]\(") + "\n"


def _grid(table: TextTable) -> str:
    lines = [table.heads, ["---"] * len(table.heads), *table.rows]
    return "\n".join("| " + " | ".join(_one_line(cell.replace("|", "\\|")) for cell in line) + " |" for line in lines)


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def latex(report: records.ReportFile, head: str = "row") -> str:
    """A tabular with booktabs rules: for every column ours, and the published value if there is one.

    Args:
        head: above the names of rows.
    """
    heads, spans, success, shortcuts = [], [], report.success, shortcut_rows(report.each())
    body = {name: [_tex(name)] for name in (*(row.name for row in report.rows), *shortcuts)}
    for column in report.columns:
        cells = {row.name: row.cell(column.name) for row in report.rows}
        width = 2 if any(cell and cell.published for cell in cells.values()) else 1
        heads += ["ours", "published"][:width]
        spans.append(f"\\multicolumn{{{width}}}{{c}}{{{_tex(label(column.name, column.unit))}}}")
        for name, line in body.items():
            if cell := cells.get(name):
                line += [_tex(write(cell)) for write in (mean_and_sd, published)[:width]]
            else:
                line += [shortcuts.get(name, {}).get(column.name, ""), ""][:width]
    if success:
        heads, spans = [*heads, _tex(FAILED)], [*spans, _tex(success.column)]
        for name, line in body.items():
            line.append("" if name in shortcuts else _tex(failed(success.of(name))))
    lines = [
        f"% {_one_line('; '.join(filter(None, [report.title, report.protocol])))}",
        f"\\begin{{tabular}}{{l{'r' * len(heads)}}}",
        r"\toprule",
        " & ".join(["", *spans]) + r" \\",
        " & ".join([_tex(head), *heads]) + r" \\",
        r"\midrule",
        *(" & ".join(line) + r" \\" for line in body.values()),
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


def record(table: Table, comparisons: Sequence[Comparison] = (), **more: Any) -> records.ReportFile:
    """The report of a table.

    Args:
        more: the fields of `ReportFile` that are not in the table.
    """
    return records.ReportFile(
        title=table.report.title,
        protocol=table.report.protocol,
        published=None if table.published is None else _published_table(table.published),
        columns=[replace(column, metric=column.measured) for column in table.columns],
        rows=[
            records.ReportRow(name=row, cells=list(map(_stored, cells.values()))) for row, cells in table.cells.items()
        ],
        comparisons=list(comparisons),
        hypotheses=list(table.answers),
        highlight=table.highlight,
        data_seeds=spreads(table),
        **more,
    )


def _published_table(known: Published) -> records.PublishedTable:
    return records.PublishedTable(paper=known.paper, table=known.name, source=known.source, trials=known.trials)


def _stored(cell: records.Cell) -> records.Cell:
    """A cell whose runs are named by the ends of their folders."""
    seeds = [replace(seed, folder=seed.folder and short_name(Path(seed.folder))) for seed in cell.seeds]
    return replace(cell, seeds=seeds)
