"""Captions of a report's pictures, and their files."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from attnlab.plots.png_caption import sentences
from attnlab.plots.style import save
from attnlab.report.table_types import Drawn, Table


def finished(figure: Figure, path: Path, table: Table, parts: Sequence[str]) -> Drawn:
    """Writes a picture with its caption: the report's title, then what the picture shows and what is to be seen."""
    caption = f"{table.report.title}: {sentences(parts)}"
    return [(save(figure, path, caption), caption)]
