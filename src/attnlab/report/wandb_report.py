"""A report as a wandb run of its own: the table, every seed and the figures, beside the runs it was made from."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnlab.config.schema import LoggerOptions
from attnlab.config.suggest import command_line
from attnlab.run.run_folder import RunError
from attnlab.run.wandb_run import open_run

CELLS = (
    "row", "column", "unit", "mean", "sd", "n", "best", "best_seed", "worst", "worst_seed", "bimodal",
    "published", "published_spread", "published_text", "difference", "difference_in_sd",
)  # fmt: skip
SEEDS = ("row", "column", "unit", "seed", "value", "state", "reason", "folder")
COMPARISONS = ("column", "row", "against", "difference", "low", "high", "method")


def log_report(folder: Path, options: LoggerOptions, runs_root: Path) -> str:
    """Log a folder of `report.py` to wandb.

    Args:
        folder: holds report.json and the pictures it lists.
        options: wandb_online sends it; otherwise it is kept for `wandb sync`.
        runs_root: paths.runs; the wandb folder of the training runs lies there.

    Returns:
        where it is, and how it gets to a server.

    Raises:
        RunError: no report, not logged in, or wandb cannot start.
    """
    file = folder / "report.json"
    try:
        report = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise RunError(f"{file} cannot be read ({error}); write it with python report.py experiment=...") from None
    import wandb

    published = report["published"] or {}
    try:
        run = open_run(
            folder,
            runs_root,
            options,
            group="report",
            job_type="report",
            name=report["experiment"],
            tags=["report", *([published["table"][:64]] if published else [])],
            config={key: value for key, value in report.items() if key not in ("rows", "comparisons", "figures")},
        )
    except (OSError, RuntimeError, wandb.Error) as error:
        raise RunError(f"wandb did not start ({error}); the report lies in {folder}") from None
    with run:
        run.log(_tables(report) | _figures(report, folder))
        # The runs table shows a mean a cell: ours/linear/ood.
        run.summary.update({f"ours/{line[0]}/{line[1]}": line[3] for line in _cells(report) if line[3] is not None})
        place, url = Path(run.dir).parent, run.url
    sent = options.name == "wandb_online"
    return f"wandb: {url}" if sent else f"wandb: {place}; send it with: {command_line('wandb sync', str(place))}"


def _tables(report: Mapping[str, Any]) -> dict[str, Any]:
    import wandb

    tables = {"table": (CELLS, _cells(report)), "seeds": (SEEDS, _seeds(report))}
    tables["comparisons"] = (COMPARISONS, _comparisons(report))
    return {name: wandb.Table(columns=list(columns), data=list(lines)) for name, (columns, lines) in tables.items()}


def _figures(report: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The pictures that are there."""
    import wandb

    there = [figure for figure in report["figures"] if (folder / figure["file"]).exists()]
    return {
        f"figures/{Path(figure['file']).stem}": wandb.Image(str(folder / figure["file"]), caption=figure["caption"])
        for figure in there
    }


def _cells(report: Mapping[str, Any]) -> Iterator[list[Any]]:
    for row, cell, unit in _each(report):
        best, worst = cell["best"] or [None, None], cell["worst"] or [None, None]
        published = cell["published"] or {}
        yield [
            *(row, cell["column"], unit, cell["mean"], cell["sd"], cell["n"]),
            *(best[1], best[0], worst[1], worst[0], cell["bimodal"]),
            *(published.get(key) for key in ("value", "spread", "text")),
            *(cell["difference"], cell["difference_in_sd"]),
        ]


def _seeds(report: Mapping[str, Any]) -> Iterator[list[Any]]:
    for row, cell, unit in _each(report):
        for seed in cell["seeds"]:
            yield [row, cell["column"], unit, *(seed[key] for key in SEEDS[3:])]


def _comparisons(report: Mapping[str, Any]) -> Iterator[list[Any]]:
    for one in report["comparisons"]:
        yield [one[key] for key in COMPARISONS]


def _each(report: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any], str]]:
    units = {column["name"]: column["unit"] for column in report["columns"]}
    for row in report["rows"]:
        for cell in row["cells"]:
            yield row["name"], cell, units[cell["column"]]
