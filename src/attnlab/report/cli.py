"""`python report.py`: tables and figures from run folders. torch is imported for pictures of attentions only."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from attnlab.config.check import ConfigError
from attnlab.config.report_schema import Picture
from attnlab.config.schema import LoggerOptions
from attnlab.config.suggest import command_line, hint, listed, nearest
from attnlab.learn.metric_units import headlines
from attnlab.report.build_table import make_table
from attnlab.report.provenance_notes import notes, origin, problems
from attnlab.report.published_numbers import PublishedError, published_table
from attnlab.report.report_json import ReportFigure, report_text
from attnlab.report.run_selection import RunSelection, plain_report, require_runs, select_experiment, select_glob
from attnlab.report.table_types import Table, TableError
from attnlab.report.table_writers import (
    cells_csv,
    compared,
    latex,
    markdown,
    record,
    seeds_csv,
)
from attnlab.run.run_argument import folder_words
from attnlab.run.run_folder import RunError, require_writable, write_text

HELP = """python report.py experiment=... | runs=... | diagnose=... | page

Tables and figures from run folders; what is missing, running or failed is named, and never part of a mean.

  experiment=park2024/table4_scan   the cells of an experiment beside the published numbers; words of train.py narrow it
                                    (model=linear seed=0,1,2)
  runs=<glob>                       any run folders, or folders that hold some: runs='experiments/runs/scan*'
  include=debug                     with runs=: also those trained with debug=..., which are left out else
  rows=model,optim.lr               keys whose values make a row (default: the experiment's, or what varies)
  columns=test/ood/sequence_accuracy,seconds
                                    metrics (default: the experiment's, or the main test metrics)
  against=linear                    the row that others are compared with (default: the first one)
  figures=bars,by_length,training   pictures (default: the experiment's, or bars)
  out=<folder>                      where table.md, table.csv, seeds.csv, table.tex, report.json and the pictures go
                                    (default: experiments/reports/<name>)
  logger=wandb_offline              also a wandb run with the table and the figures (wandb_offline, wandb_online)

  diagnose=<run folder>             pictures of what the attentions of one run do; `python report.py diagnose` says more
  page                              one HTML page of everything measured (also `make report`)
"""
OWN = ("experiment", "runs", "include", "rows", "columns", "against", "figures", "out", "logger")
FIGURES = ("bars", "by_length", "training")
LOGGERS = ("csv", "wandb_offline", "wandb_online")
COMMANDS = {
    "diagnose": "attnlab.report.diagnose.cli:diagnose_main",
    "page": "attnlab.report.page.cli:page_main",
}
REPORTS = Path("experiments/reports")
ELSEWHERE = "choose another out=<folder>"


def report_main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    if not argv or any(word in ("--help", "-h") for word in argv):
        print(HELP)
        return 0 if argv else 2
    for word in argv:
        if (name := word.partition("=")[0]) in COMMANDS:
            return _function(COMMANDS[name])([one for one in argv if one != name])
    try:
        own, words = _options(argv)
        return _report(own, words)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except (TableError, PublishedError, RunError) as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 1


def _function(path: str) -> Callable[[Sequence[str]], int]:
    import importlib

    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def _options(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """This command's own options, and the words that narrow an experiment.

    Raises:
        ConfigError: with every problem.
    """
    own = {word.partition("=")[0]: word.partition("=")[2] for word in argv if word.partition("=")[0] in OWN}
    folders = folder_words(argv, ("runs", "diagnose"))
    words = [word for word in argv if word.partition("=")[0] not in OWN and word not in folders]
    found = [f"{word}: expected {word}=value" for word in argv if word in OWN]
    found += [f"{word}: write {instead}" for word, instead in folders.items()]
    found += [f"{key}=: empty" for key, value in own.items() if not value and key not in argv]
    found += [f"{key}: given twice" for key in own if sum(word.startswith(f"{key}=") for word in argv) > 1]
    if ("experiment" in own) == ("runs" in own) and not folders:
        near = hint(next(filter(None, (nearest(word.partition("=")[0], (*OWN, *COMMANDS)) for word in words)), None))
        found.append(f"expected one of experiment=..., runs=..., diagnose=... or page{near}")
    elif "runs" in own:
        found += [f"{word}: not known with runs={hint(nearest(word.partition('=')[0], OWN))}" for word in words]
    if own.get("include", "debug") != "debug" or ("include" in own and "runs" not in own):
        found.append(f"include={own['include']}: expected include=debug, beside runs=...")
    if own.get("logger", "csv") not in LOGGERS:
        near = hint(nearest(own["logger"], LOGGERS))
        found.append(f"logger={own['logger']}: expected one of {listed(LOGGERS)}{near}")
    for kind in filter(None, own.get("figures", "").split(",")):
        if kind not in FIGURES:
            found.append(f"figures={kind}: expected some of {listed(FIGURES)}{hint(nearest(kind, FIGURES))}")
    if found:
        raise ConfigError(found, "report.py")
    return own, words


def _report(own: Mapping[str, str], words: Sequence[str]) -> int:
    from attnlab.report.terminal_output import print_report

    selection = _selection(own, words)
    require_runs(selection)
    table = _table(selection, own)
    comparisons = table.comparisons(own.get("against"))
    out = Path(own["out"]) if "out" in own else _folder(selection)
    require_writable(out, ELSEWHERE)
    figures, undrawn = _figures(table, out)
    lines = {
        "Differences over seeds": [compared(comparison, table) for comparison in comparisons],
        "Without a number": [*problems(table, selection.skipped), *undrawn],
        "To know": [*filter(None, [selection.left_out]), *notes(table)],
    }
    print_report(table, lines)
    command = _command(own, words)
    parts = {
        "experiment": selection.name,
        "train_command": selection.command,
        "report_command": command,
        "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "problems": lines["Without a number"],
        "notes": lines["To know"],
        "origin": origin(table),
        "figures": figures,
    }
    report = record(table, comparisons, parts)
    texts = {
        "table.md": markdown(table, lines | {"How": [f"`{one}`" for one in (selection.command, command) if one]}),
        "table.csv": cells_csv(report),
        "seeds.csv": seeds_csv(report),
        "table.tex": latex(table),
        "report.json": report_text(report),
    }
    for name, text in texts.items():
        write_text(out / name, text, ELSEWHERE)
    print(f"written to {out}: {', '.join([*texts, *(figure.file for figure in figures)])}")
    if own.get("logger", "csv") != "csv":
        _mirror(out, own["logger"], table)
    return 0


def _selection(own: Mapping[str, str], words: Sequence[str]) -> RunSelection:
    if "experiment" in own:
        return select_experiment(own["experiment"], words)
    return select_glob(own["runs"], "include" in own)


def _command(own: Mapping[str, str], words: Sequence[str]) -> str:
    """This command again; where it writes to is no part of what it says."""
    given = [f"{key}={value}" for key, value in own.items() if key not in ("out", "logger")]
    return command_line("python report.py", *given, *words)


def _table(selection: RunSelection, own: Mapping[str, str]) -> Table:
    rows, columns = (tuple(filter(None, own.get(key, "").split(","))) for key in ("rows", "columns"))
    report = plain_report(selection, rows, columns)
    if "figures" in own:
        report = replace(report, figures=[Picture(kind=kind) for kind in own["figures"].split(",")])
    published = published_table(report.published) if report.published else None
    table = make_table(report, selection.runs, published)
    for column in table.columns if columns else ():
        if all(cell.mean is None for cell in table.each() if cell.column == column):
            _require_column(column.metric, selection)
    return table


def _require_column(metric: str, selection: RunSelection) -> None:
    """Of columns that were asked for: one without a single number, said with what the runs do have."""
    having = [run.result["metrics"] for run in selection.runs if run.state == "finished"]
    known = list(dict.fromkeys(name for metrics in having for name in (*headlines(metrics), *metrics)))
    if metric not in known:
        raise TableError(f"columns={metric}: no run has it{hint(nearest(metric, known))}; {listed(known, 12)}")


def _folder(selection: RunSelection) -> Path:
    """An experiment's name is a folder below the reports, with what narrows it; a glob becomes one word."""
    if selection.command:
        narrowed = f"--{_word(' '.join(selection.words))}" if selection.words else ""
        return REPORTS / f"{selection.name}{narrowed}"
    return REPORTS / (_word(selection.name) or "runs")


def _word(text: str) -> str:
    return "".join(sign if sign.isalnum() else "_" for sign in text).strip("_")[-80:]


def _figures(table: Table, out: Path) -> tuple[list[ReportFigure], list[str]]:
    """Draws what the block asks for; a picture that cannot be drawn costs a line, not the table."""
    from attnlab.data.files.fetch import DataError
    from attnlab.report.figures.bar_charts import draw

    found, undrawn = [], []
    for number, picture in enumerate(table.report.figures, start=1):
        try:
            drawn = draw(table, picture, out, number)
        except (TableError, RunError, DataError, ConfigError) as error:
            undrawn.append(f"no picture {picture.quantity or picture.kind}: {error}")
        else:
            found += [ReportFigure(file=path.name, caption=caption) for path, caption in drawn]
    return found, undrawn


def _mirror(out: Path, logger: str, table: Table) -> None:
    """The report as a wandb run, beside those of the runs: `<paths.runs>/<task>/<model>/<tag>/seed<k>`."""
    from attnlab.report.wandb_report import log_report

    print(log_report(out, LoggerOptions(name=logger), table.runs[0].folder.parents[3]))
