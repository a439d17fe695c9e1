"""Captions of a report's pictures, and their files."""

from collections.abc import Collection, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from attnlab.plots.png_caption import sentences, span
from attnlab.plots.style import save
from attnlab.report.runs.run_counts import row_runs
from attnlab.report.table_types import Drawn, Table


def seeds_in_words(counts: Collection[int]) -> str:
    """Number of seeds behind the marks of a picture: `3 seeds`, `1 to 3 seeds`, `one seed`."""
    return "one seed" if max(counts) == 1 else f"{span(counts)} seeds"


def interest(table: Table) -> str:
    """The meaning of bold lines and names, at the end of a note; empty without a row of interest."""
    return ", bold: row of interest" if table.highlight else ""


def finished(figure: Figure, path: Path, table: Table, parts: Sequence[str]) -> Drawn:
    """Writes a picture with its caption: the report's title, then what the picture shows and what is to be seen.

    Rows with diverged runs are named, as the marks of a row are about its other runs.
    """
    lost = [f"{one.row} {one.diverged} of {one.started}" for one in row_runs(table) if one.diverged]
    diverged = [f"Runs that diverged, without a mark: {'; '.join(lost)}"] if lost else []
    caption = f"{table.report.title}: {sentences([*parts, *diverged])}"
    return [(save(figure, path, caption), caption)]
