"""Drawing of any figure of a report, by its kind."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attnlab.config.report_block import Picture
from attnlab.plots.png_caption import caption_of
from attnlab.plots.style import save
from attnlab.report.figures.bars import bars, errors
from attnlab.report.figures.by_state_size import by_state_size
from attnlab.report.figures.forest import forest
from attnlab.report.figures.lines_and_dots import by_length, curve, pairs, time_to_success, training
from attnlab.report.figures.row_pictures import Drawn
from attnlab.report.figures.scatter import iid_ood, scatter
from attnlab.report.report_record import ReportError, read_report
from attnlab.report.table_types import Table, TableError

KINDS: Mapping[str, Callable[[Table, Picture], Drawn]] = {
    "bars": lambda table, _: bars(table),
    "curve": lambda table, picture: curve(table, picture.x or ""),
    "by_length": lambda table, picture: by_length(table, picture.subset, picture.metric or ""),
    "training": lambda table, picture: training(table, picture.metric or "train/loss"),
    "time_to_success": lambda table, _: time_to_success(table),
    "forest": lambda table, _: forest(table),
    "pairs": lambda table, picture: pairs(table, picture.metric),
    "iid_ood": lambda table, picture: iid_ood(table, picture.metric),
    "scatter": lambda table, picture: scatter(table, picture.x or "", picture.metric),
    "errors": lambda table, _: errors(table),
    "state_size": lambda table, _: by_state_size(table),
}
OF_RUNS = ("by_length", "training")
"""kinds that read the runs of a row, of all columns: columns with different runs have a picture each"""


def draw(table: Table, picture: Picture, out: Path) -> list[tuple[Path, str]]:
    """Draws one picture of a report into its folder; returns the files and their captions: the report's title, what the
    marks mean, and which runs have none.

    Raises:
        TableError: the runs lack the numbers for it.
    """
    title = table.report.title
    if picture.kind == "diagnosis":
        return [(file, f"{title}: {words}") for file, words in _diagnosis(table, picture, out)]
    name = _name(picture, table.report.figures)
    tables = table.by_condition(picture.subset) if picture.kind in OF_RUNS else {"": table}
    drawn: list[tuple[Path, str]] = []
    problems: list[TableError] = []
    for condition, part in tables.items():
        file = "_".join([name, *re.findall(r"\w+", condition)])
        try:
            drawn.append(_picture(part, picture, out / f"{file}.png", condition))
        except TableError as error:
            problems.append(error)
    if not drawn:
        raise problems[0]
    return drawn


def _name(picture: Picture, pictures: Sequence[Picture]) -> str:
    """The kind of a picture, and what other pictures of this kind do not show: `scatter_keys`."""
    others = [other for other in pictures if other.kind == picture.kind]
    keys = [key for key in ("x", "subset", "metric") if len({getattr(other, key) for other in others}) > 1]
    words = " ".join(getattr(picture, key) or "" for key in keys)
    return "_".join([picture.kind, *re.findall(r"\w+", words)])


def _picture(table: Table, picture: Picture, file: Path, condition: str) -> tuple[Path, str]:
    """Draws one file.

    Args:
        condition: of the runs; a heading of the figure.
    """
    figure, note = KINDS[picture.kind](table, picture)
    if condition:
        figure.suptitle(condition, fontsize=10)
    lost = [f"{row.row} {row.diverged} of {row.started}" for row in table.row_runs() if row.diverged]
    diverged = f" Runs that diverged, without a mark: {'; '.join(lost)}." if lost else ""
    caption = f"{': '.join(filter(None, [table.report.title, condition, note]))}.{diverged}"
    return save(figure, file, caption), caption


def _diagnosis(table: Table, picture: Picture, out: Path) -> list[tuple[Path, str]]:
    """Draws the attentions of the best and the worst seed of each row (`report.diagnose`; imports torch)."""
    from attnlab.report.diagnose.run_figures import NamedRun, draw_diagnosis

    names = [column.name for column in table.columns]
    if picture.metric not in (None, *names):
        raise TableError(f"figures: best and worst by {picture.metric}: no such column; columns: {', '.join(names)}")
    metric = picture.metric or names[0]
    chosen: dict[Path, NamedRun] = {}
    for cell in (cell for cell in table.each() if cell.column.name == metric):
        ends = [(which, end[0]) for which, end in (("best", cell.best), ("worst", cell.worst)) if end]
        for which, seed in ends:
            folder = Path(next(each.folder or "" for each in cell.seeds if each.key == seed))
            words = f"{which} seed" if len({key for _, key in ends}) > 1 else "seed"
            label, number = f"{cell.row}, {words} {seed}", str(seed).replace(" of data ", "_data")
            chosen.setdefault(folder, NamedRun(label, folder, cell.row, number))
    if not chosen:
        raise TableError("there is no number to draw")
    quantity = picture.quantity or "norms"
    pictures = [file for file in draw_diagnosis(quantity, list(chosen.values()), out) if file.suffix == ".png"]
    if not pictures:
        raise TableError(f"these networks have no {quantity} (locality is of self-attention only)")
    return [(file, f"{caption_of(file)} Seeds are best and worst by {metric}.") for file in pictures]


def remove_former_pictures(out: Path, drawn: set[str]) -> None:
    """Removes the pictures that an earlier report in this folder names and this one has not drawn."""
    try:
        former = {out / figure.file for figure in read_report(out / "report.json").figures if figure.file not in drawn}
    except ReportError:
        return
    for file in former & set(out.glob("*.png")):
        file.unlink()
