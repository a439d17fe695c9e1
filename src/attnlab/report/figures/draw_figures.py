"""Drawing of any figure of a report, by its kind."""

from collections.abc import Callable, Mapping
from pathlib import Path

from attnlab.config.report_block import Picture
from attnlab.plots.png_caption import caption_of
from attnlab.report.figures.bars_and_sweep_curves import bars, curve
from attnlab.report.figures.curves import by_length, time_to_success, training
from attnlab.report.figures.error_parts import errors
from attnlab.report.figures.forest_plot import forest
from attnlab.report.figures.iid_against_ood import iid_ood
from attnlab.report.figures.paired_seeds import pairs
from attnlab.report.report_record import ReportError, read_report
from attnlab.report.table_types import Drawn, Table, TableError


def draw(table: Table, picture: Picture, out: Path, number: int) -> Drawn:
    """Draws one picture of a report.

    Args:
        out: the report's folder.
        number: of the picture in the report; part of the file's name if a kind comes twice.

    Raises:
        TableError: the runs lack the numbers for it.
    """
    alike = [other for other in table.report.figures if other.kind == picture.kind]
    name = picture.kind if len(alike) == 1 else f"{picture.kind}{number}"
    return KINDS[picture.kind](table, picture, out / f"{name}.png")


def diagnosis(table: Table, picture: Picture, path: Path) -> Drawn:
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
    pictures = [file for file in draw_diagnosis(quantity, list(chosen.values()), path.parent) if file.suffix == ".png"]
    if not pictures:
        raise TableError(f"these networks have no {quantity} (locality is of self-attention only)")
    return [
        (file, f"{table.report.title}: {caption_of(file)} Seeds are best and worst by {metric}.") for file in pictures
    ]


KINDS: Mapping[str, Callable[[Table, Picture, Path], Drawn]] = {
    "bars": bars,
    "curve": curve,
    "by_length": by_length,
    "training": training,
    "time_to_success": time_to_success,
    "forest": forest,
    "pairs": pairs,
    "iid_ood": iid_ood,
    "errors": errors,
    "diagnosis": diagnosis,
}


def remove_former_pictures(out: Path, drawn: set[str]) -> None:
    """Removes the pictures that an earlier report in this folder names and this one has not drawn."""
    try:
        former = {out / figure.file for figure in read_report(out / "report.json").figures if figure.file not in drawn}
    except ReportError:
        return
    for file in former & set(out.glob("*.png")):
        file.unlink()
