"""`python report.py`: tables and figures from run folders; torch is imported for pictures of attentions only."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

from attnlab.config.command_line.command_frame import command
from attnlab.config.command_line.option_parser import CommandLine, CommandOptions, options_help, read_options
from attnlab.config.command_line.words import sections
from attnlab.config.dotted_keys import section_or_group
from attnlab.config.job_config import compose_config
from attnlab.config.message_text import command_line, hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import ConfigError, Problem, UserError
from attnlab.config.report_block import Picture, TableFigure
from attnlab.config.schema import LoggerOptions
from attnlab.learn.declaration_checks import declaration_problems
from attnlab.learn.metric_units import headlines
from attnlab.report import report_record as records
from attnlab.report.build_table import make_table
from attnlab.report.diagnose.cli import diagnose_main
from attnlab.report.failures.count_failures import count_failures, uneven_spreads
from attnlab.report.hypothesis_answers import answers
from attnlab.report.page.cli import page_main
from attnlab.report.published_numbers import published_table
from attnlab.report.report_notes import notes, origin, problems
from attnlab.report.runs.run_archives import unpacked_archives
from attnlab.report.runs.select_runs import (
    RunSelection,
    plain_report,
    require_runs,
    select_glob,
    select_jobs,
    spent_runs,
)
from attnlab.report.table_types import Table
from attnlab.report.table_writers import (
    cell_lines,
    csv_text,
    latex,
    log_report,
    markdown,
    print_report,
    record,
    seed_lines,
)
from attnlab.run.named_runs import folder_words
from attnlab.run.run_folder import require_writable, write_text

SWEEP = ("-m", "--multirun")
"""flags of train.py that a report takes as well, so that it understands the same words"""
COMMANDS = {"diagnose": diagnose_main, "page": page_main}
REPORTS = Path("experiments/reports")
ELSEWHERE = "choose another out=<folder>"


@dataclass(frozen=True, kw_only=True)
class ReportOptions(CommandOptions):
    """Options of report.py."""

    experiment: str | None = None
    """the cells of an experiment and the published numbers, such as experiment=park2024/table4_scan; words of train.py
    narrow it (model=linear seed=0,1,2)"""
    runs: str | None = field(default=None, metadata={"path": True})
    """any run folders, folders that hold some, or archives of some (.tar.xz), by a glob: runs='experiments/runs/scan*';
    settings narrow them (model=linear,vanilla optim.lr=0.001)"""
    include: str | None = None
    """include=debug, with runs=: also the runs of debug=..., which are left out otherwise"""
    rows: list[str] = field(default_factory=list)
    """keys whose values make a row: rows=model,optim.lr (default: the rows of the experiment, or what varies)"""
    columns: list[str] = field(default_factory=list)
    """metrics: columns=test/ood/sequence_accuracy,seconds (default: the columns of the experiment, or the main test
    metrics)"""
    against: str | None = None
    """the row that others are compared with: against=linear (default: the first one)"""
    highlight: str | None = None
    """the row that is strongest in pictures: highlight=linear_l2 (default: the row of the experiment's first
    hypothesis)"""
    figures: list[TableFigure] = field(default_factory=list)
    """pictures: some of bars,by_length,training,time_to_success,forest,pairs,iid_ood,errors,state_size (default: the
    figures of the experiment, or bars)"""
    out: Path | None = None
    """folder of table.md, table.csv, seeds.csv, table.tex, report.json and the pictures (default:
    experiments/reports/<name>)"""
    logger: Literal["csv", "wandb_offline", "wandb_online"] = "csv"
    """wandb_offline, wandb_online: also a wandb run with the table and the figures"""

    def problems(self) -> Iterator[Problem]:
        """An include= that is not debug or without runs=."""
        if self.include not in (None, "debug") or (self.include and not self.runs):
            yield Problem("include", f"={self.include}: expected include=debug, beside runs=...")


HELP = f"""python report.py experiment=... | runs=... | <words of train.py> | diagnose=... | page

Tables and figures from run folders; missing, running and failed runs are named, and never part of a mean.

{options_help(ReportOptions, 19)}

  <words of train.py>
                   the runs of that command: -m task=scan model=linear,vanilla seed=0,1,2; a key with several values
                   makes rows

  diagnose=...     pictures of the attentions of one run; `python report.py diagnose` says more
  page             one HTML page of everything measured (also `make report`)
"""


def report_main(argv: Sequence[str]) -> int:
    """Run the command line, here or by one of `COMMANDS`; returns the exit code."""
    names = (word.partition("=")[0] for word in argv)
    name = next((name for name in names if name in COMMANDS), None)
    return _report(argv) if name is None else COMMANDS[name]([word for word in argv if word != name])


def _options(argv: Sequence[str]) -> CommandLine[ReportOptions]:
    """The options of report.py, and the words that narrow an experiment."""
    argv = [word for word in argv if word not in SWEEP]
    folders = folder_words(argv, ("runs", "diagnose"))
    line = read_options(ReportOptions, argv, folders)
    keys, others = [option.name for option in fields(ReportOptions)], [word.partition("=")[0] for word in line.others]
    sources = {word.partition("=")[0] for word in argv} & {"experiment", "runs"}
    problems = line.problems
    of_train = {word for word in others if section_or_group(word.lstrip("+~")) in sections()}
    if (len(sources) > 1 or not (sources or of_train)) and not folders:
        near = hint(next(filter(None, (nearest(word, (*keys, *COMMANDS)) for word in others)), None))
        text = f": expected one of experiment=..., runs=..., words of train.py, diagnose=... or page{near}"
        problems.append(Problem(" and ".join(sorted(sources)) or " ".join(argv), text))
    elif "runs" in sources:
        # other words narrow the runs
        for word in line.others:
            option = nearest(word.partition("=")[0], keys)
            if option is not None or "=" not in word.strip("="):
                problems.append(Problem(word, f": not known with runs={hint(option)}"))
    if problems:
        raise ConfigError(problems, "report.py")
    return line


@command(lambda: HELP, prefix="report.py")
def _report(argv: Sequence[str]) -> int:
    """Selects the runs, unpacked from archives where these are named, and makes the report; returns the exit code."""
    line = _options(argv)
    options = line.complete()
    with unpacked_archives(options.runs) as unpacked:
        if options.runs is None:
            selection = select_jobs(options.experiment, line.others)
        else:
            selection = select_glob(options.runs, line.others, options.include is not None, unpacked)
        return _make(line, options, require_runs(selection))


def _make(line: CommandLine[ReportOptions], options: ReportOptions, selection: RunSelection) -> int:
    table = _table(selection, options)
    comparisons = table.comparisons(options.against)
    out = options.out or REPORTS / _folder(selection, options.experiment)
    require_writable(out, ELSEWHERE)
    figures, undrawn = _figures(table, out)
    # without the options that say where it goes
    kept = [word for word in line.words if not word.startswith(("out=", "logger="))]
    again = command_line("python report.py", *kept, *line.others)
    report = record(
        table,
        comparisons,
        experiment=selection.name,
        train_command=selection.command,
        report_command=again,
        made=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        problems=[*problems(table, selection.skipped), *undrawn],
        notes=[*filter(None, [selection.left_out]), *notes(table), *uneven_spreads(table, comparisons)],
        origin=origin(table),
        success=count_failures(table, options.against),
        budget=spent_runs(table.runs, selection.root),
        figures=figures,
    )
    texts = {
        "table.md": markdown(report),
        "table.csv": csv_text(cell_lines(report)),
        "seeds.csv": csv_text(seed_lines(report)),
        "table.tex": latex(report),
        "report.json": records.report_text(report),
    }
    for name, text in texts.items():
        write_text(out / name, text, ELSEWHERE)
    print_report(report)
    print(f"written to {out}: {', '.join([*texts, *(figure.file for figure in figures)])}")
    if options.logger != "csv":
        # a glob may find runs of others: the wandb folder is the user's own
        runs = selection.root if options.runs is None else compose_config([])["paths"]["runs"]
        print(log_report(out, LoggerOptions(name=options.logger), Path(runs)))
    return 0


def _table(selection: RunSelection, options: ReportOptions) -> Table:
    """The table, with the rows, columns and figures of the options."""
    report = plain_report(selection, options.rows or selection.rows, options.columns)
    figures = [Picture(kind=kind) for kind in options.figures]
    report = replace(report, figures=figures or report.figures, highlight=options.highlight or report.highlight)
    table = make_table(report, selection.runs, published_table(report.published) if report.published else None)
    if wrong := declaration_problems(report):
        raise ConfigError(wrong, "report.py")
    if report.highlight and (options.highlight or not selection.words):
        table.require_row(f"{'' if options.highlight else 'report.'}highlight={report.highlight}", report.highlight)
    # checks the columns that were asked for
    having = [run.result["metrics"] for run in table.finished()]
    known = list(dict.fromkeys(name for metrics in having for name in (*headlines(metrics), *metrics)))
    for column in table.columns if options.columns else ():
        if column.metric not in known and not any(cell.values for cell in table.each(column)):
            inside = next((name for name in known if column.metric in name.split("/")), None)
            near = hint(nearest(column.metric, known) or inside)
            while_training = any(run.logged([column.metric]) for run in table.finished())
            why = "recorded while training, no result of a run" if while_training else f"no run has it{near}"
            raise ConfigError([Problem("columns", f"={column.metric}: {why}; {listed(known, 12)}")], "report.py")
    return replace(table, answers=answers(table))


def _folder(selection: RunSelection, experiment: str | None) -> str:
    """The default folder: the name of an experiment, or a glob or a command as one word, with words that narrow it."""
    name, words = (
        "".join(sign if sign.isalnum() else "_" for sign in text).strip("_")[-80:]
        for text in (selection.name, " ".join(selection.words))
    )
    return f"{experiment or name or 'runs'}{f'--{words}' if selection.words else ''}"


def _figures(table: Table, out: Path) -> tuple[list[records.ReportFigure], list[str]]:
    """Draws the figures of a report; returns sentences on the ones that cannot be drawn."""
    from attnlab.report.figures.draw_figures import draw, remove_former_pictures

    figures, undrawn = [], []
    for picture in table.report.figures:
        try:
            drawn = draw(table, picture, out)
        except UserError as error:
            undrawn.append(f"no picture {picture.quantity or picture.kind}: {error}")
        else:
            figures += [records.ReportFigure(file=path.name, caption=caption) for path, caption in drawn]
    remove_former_pictures(out, {figure.file for figure in figures})
    return figures, undrawn
