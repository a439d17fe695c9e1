"""Writers of a report: terminal, markdown, LaTeX, flat lines for csv files, wandb."""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.config.message_text import command_line, table_console
from attnlab.config.schema import LoggerOptions
from attnlab.learn.metric_units import label
from attnlab.plots.csv_text import csv_cell
from attnlab.report.analysis_record import Comparison, RowSuccess, RunOutcome
from attnlab.report.published_numbers import Value
from attnlab.report.report_record import Cell, ReportError, ReportFile, ReportRow, read_report, report_text
from attnlab.report.runs.read_runs import short_name
from attnlab.report.table_types import Table
from attnlab.report.text_tables import (
    FAILED,
    HYPOTHESES,
    Part,
    TextTable,
    cell_by_cell,
    failed,
    glance,
    mean_and_sd,
    published,
    report_parts,
    shortcut_rows,
)
from attnlab.run.run_folder import RunError
from attnlab.run.wandb_mirror import import_wandb, open_run

if TYPE_CHECKING:
    from rich.table import Table as Grid

NOTHING = (None, None)
IN_LINES = ("difference", "difference_in_sd", "examples", "test_set_error")
OF_FAILURES = {"failed": "failed", "counted": "n", "failed_low": "low", "failed_high": "high"}
OUTCOME = tuple(part.name for part in fields(RunOutcome) if part.name != "seed")


def print_report(report: ReportFile) -> None:
    """Prints the answers to hypotheses, every cell with its seeds, then the other parts."""
    console = table_console()

    def say(*lines: str) -> None:
        for line in filter(None, lines):
            console.print(line, highlight=False, soft_wrap=True)

    parts = report_parts(report)
    first = sum(part.heading == HYPOTHESES for part in parts)
    for part in (*parts[:first], None, *parts[first:]):
        if part is None:
            console.print(_terminal_grid(cell_by_cell(report), report.title))
            say(f"protocol: {report.protocol}" if report.protocol else "")
            continue
        say(f"\n{part.heading}", part.about)
        for table in part.tables:
            say(table.title)
            console.print(_terminal_grid(table))
        say(*(f"  {line}" for line in part.lines))
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


def markdown(report: ReportFile) -> str:
    """Answers to hypotheses, a table as papers print it, every cell with its seeds, the other parts, the commands."""
    how = [f"`{command}`" for command in (report.train_command, report.report_command) if command]
    parts = {}
    for part in (*report_parts(report), Part("How", how)):
        tables = [text for table in part.tables for text in (_one_line(table.title), _grid(table))]
        lines = "\n".join(f"- {_one_line(line)}" for line in part.lines)
        parts[part.heading] = list(filter(None, [f"## {part.heading}", part.about, *tables, lines]))
    texts = [f"# {_one_line(report.title)}"]
    texts += [f"Protocol: {_one_line(report.protocol)}."] if report.protocol else []
    texts += parts.pop(HYPOTHESES, [])
    texts += [_grid(glance(report)), "## Seeds", _grid(cell_by_cell(report))]
    texts += [text for part in parts.values() for text in part]
    # names and reasons come from run folders: nothing in them is to be read as HTML, as a link or as a picture
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", "\n\n".join(texts)).replace("](", r"]\(") + "\n"


def _grid(table: TextTable) -> str:
    lines = [table.heads, ["---"] * len(table.heads), *table.rows]
    return "\n".join("| " + " | ".join(_one_line(cell.replace("|", "\\|")) for cell in line) + " |" for line in lines)


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def latex(report: ReportFile) -> str:
    """A tabular with booktabs rules: for every column ours, and the published value if there is one."""
    import pandas as pd

    success, shortcuts = report.success, shortcut_rows(report.each())
    frame = {("", report.head): {name: name for name in (*(row.name for row in report.rows), *shortcuts)}}
    for column in report.columns:
        head = label(column.name, column.unit)
        cells = {row.name: cell for row in report.rows if (cell := row.cell(column.name))}
        ours = {name: numbers.get(column.name, "") for name, numbers in shortcuts.items()}
        frame[head, "ours"] = ours | {name: mean_and_sd(cell) for name, cell in cells.items()}
        if any(cell.published for cell in cells.values()):
            frame[head, "published"] = {name: published(cell) for name, cell in cells.items()}
    if success:
        frame[success.column, FAILED] = {row.name: failed(success.of(row.name)) for row in report.rows}
    table = pd.DataFrame(frame).fillna("").map(_one_line)
    text = table.to_latex(index=False, escape=True, multicolumn_format="c", column_format="l" + "r" * (len(frame) - 1))
    # LaTeX reads a bracket at the beginning of a row as an option of the row above
    text = re.sub(r"(?m)^\[", "{[}", text).replace(" ± ", r" $\pm$ ")
    return f"% {_one_line('; '.join(filter(None, [report.title, report.protocol])))}\n{text}"


def record(table: Table, comparisons: Sequence[Comparison] = (), **more: Any) -> ReportFile:
    """The report of a table, with more fields of `ReportFile`.

    Runs are named by the ends of their folders; a seed of a mean over columns with several runs has none.
    """
    conditions = {column.name: repr(column.where) for column in table.columns}

    def stored(cell: Cell) -> Cell:
        several = len({conditions[name] for name in cell.column.of}) > 1
        named = [None if several else seed.folder and short_name(Path(seed.folder)) for seed in cell.seeds]
        seeds = [replace(seed, folder=folder) for seed, folder in zip(cell.seeds, named, strict=True)]
        return replace(cell, seeds=seeds)

    return ReportFile(
        title=table.report.title,
        protocol=table.report.protocol,
        published=table.published,
        columns=[replace(column, metric=column.measured) for column in table.columns],
        rows=[ReportRow(name=row, cells=list(map(stored, of_row.values()))) for row, of_row in table.cells.items()],
        comparisons=list(comparisons),
        hypotheses=list(table.answers),
        highlight=table.highlight,
        data_seeds=table.data_seeds(),
        head=", ".join(table.report.rows) if len(table.report.rows) <= 3 else "run",
        **more,
    )


def cell_lines(report: ReportFile) -> list[dict[str, Any]]:
    """Every cell as a flat line, numbers with all their digits."""
    lines = []
    for cell in report.each():
        best, worst, shortcut = cell.best or NOTHING, cell.worst or NOTHING, (*cell.shortcuts, NOTHING)[0]
        known, length, failures = cell.published or Value(None), cell.one_length, _failures(report, cell)
        lines.append(
            {
                "row": cell.row,
                "column": cell.column.name,
                "unit": cell.column.unit,
                **{name: getattr(cell, name) for name in ("mean", "sd", "n")},
                "of": len(cell.seeds),
                "best_seed": best[0],
                "best": best[1],
                "worst_seed": worst[0],
                "worst": worst[1],
                "published": known.value,
                "published_sd": known.spread,
                "published_text": known.text,
                **{name: getattr(cell, name) for name in IN_LINES},
                "one_length": length and length.name,
                "one_length_right": length and length.right,
                "shortcut": shortcut[1],
                "shortcut_name": shortcut[0],
                **{name: failures and getattr(failures, part) for name, part in OF_FAILURES.items()},
            }
        )
    return lines


def seed_lines(report: ReportFile) -> list[dict[str, Any]]:
    """Every run of every cell as a flat line."""
    lines = []
    for cell in report.each():
        failures = _failures(report, cell)
        for seed in cell.seeds:
            outcome = failures and failures.outcome(seed.key)
            counted = {name: outcome and getattr(outcome, name) for name in OUTCOME}
            lines.append({"row": cell.row, "column": cell.column.name, **asdict(seed), **counted})
    return lines


def _failures(report: ReportFile, cell: Cell) -> RowSuccess | None:
    """Failures of a row, in the column that declares the threshold; None in other columns."""
    success = report.success
    return success.of(cell.row) if success and cell.column.name == success.column else None


def csv_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """Lines with the same keys under their heads."""
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0] if lines else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows({head: csv_cell(value) for head, value in line.items()} for line in lines)
    return text.getvalue()


LOGGED = ("rows", "comparisons", "figures")
"""fields of a report that are logged as tables and pictures, not as configuration"""


def log_report(folder: Path, options: LoggerOptions, runs_root: Path) -> str:
    """Logs a folder of `report.py`, with report.json and the pictures it lists, to wandb.

    Args:
        options: wandb_online sends it; otherwise it is kept for `wandb sync`.
        runs_root: paths.runs, which holds the wandb folder of the training runs.

    Returns:
        a sentence: where the wandb run is, and the command that sends it.

    Raises:
        RunError: no report, not logged in, or wandb cannot start.
    """
    file = folder / "report.json"
    try:
        report = read_report(file)
    except ReportError as error:
        raise RunError(f"{file} cannot be read ({error}); write it with python report.py experiment=...") from None
    wandb = import_wandb(runs_root)
    published = report.published.table if report.published else None
    try:
        run = open_run(
            folder,
            runs_root,
            options,
            group="report",
            job_type="report",
            name=report.experiment,
            tags=["report", *([published] if published else [])],
            config={key: value for key, value in json.loads(report_text(report)).items() if key not in LOGGED},
        )
    except (OSError, RuntimeError, wandb.Error) as error:
        raise RunError(f"wandb did not start ({error}); the report lies in {folder}") from None
    with run:
        run.log(_tables_and_figures(report, folder))
        # wandb's table of runs shows one mean per cell: ours/linear/ood
        means = {f"ours/{cell.row}/{cell.column.name}": cell.mean for cell in report.each()}
        run.summary.update({name: mean for name, mean in means.items() if mean is not None})
        folder_of_run, url = Path(run.dir).parent, run.url
    sent = options.name == "wandb_online"
    send = command_line("wandb sync", str(folder_of_run))
    return f"wandb: {url}" if sent else f"wandb: {folder_of_run}; send it with: {send}"


def _tables_and_figures(report: ReportFile, folder: Path) -> dict[str, Any]:
    """The tables with a line, and the pictures that exist."""
    import wandb

    compared = [{key: value for key, value in asdict(pair).items() if key != "seeds"} for pair in report.comparisons]
    tables = {"table": cell_lines(report), "seeds": seed_lines(report), "comparisons": compared}
    logged: dict[str, Any] = {
        name: wandb.Table(columns=list(lines[0]), data=[list(line.values()) for line in lines])
        for name, lines in tables.items()
        if lines
    }
    for figure in report.figures:
        if (file := folder / figure.file).exists():
            logged[f"figures/{file.stem}"] = wandb.Image(str(file), caption=figure.caption)
    return logged
