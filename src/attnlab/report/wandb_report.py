"""Logs a report as a wandb run: the table, every seed and the figures."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnlab.config.message_text import command_line
from attnlab.config.schema import LoggerOptions
from attnlab.report.report_record import ReportError, ReportFile, read_report, report_text
from attnlab.report.table_writers import cell_lines, seed_lines
from attnlab.run.run_folder import RunError
from attnlab.run.wandb_mirror import import_wandb, open_run

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
            tags=["report", *([published[:64]] if published else [])],
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
