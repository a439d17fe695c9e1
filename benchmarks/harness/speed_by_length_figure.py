"""Figure of `benchmarks.table7`: speed and memory over length, measured and published, relative to vanilla."""

from collections.abc import Mapping
from pathlib import Path

from attnlab.plots.style import legend_below, legend_lines, line_looks, logarithmic, panels, save

Lines = Mapping[str, Mapping[int, float]]
"""values by model and length"""
STRONGEST = "transnormer_t2"


def speed_by_length(lines: Mapping[str, Lines], first: int, batch: int, path: Path) -> Path:
    """Draws one panel for each entry, inference left and training right, and writes the figure.

    Args:
        lines: values of each panel, over vanilla's at its first length.
        first: first measured length.
        batch: samples of a measured batch.
    """
    titles = [title for pair in zip(*_by_mode(lines), strict=True) for title in pair]
    names = list(next(iter(lines.values())))
    looks = line_looks(names, STRONGEST)
    note = (
        f"speed: steps a second over vanilla's at the first length (measured: N = {first:,}, batch {batch}; published: "
        f"1K, one A6000); memory: peak over vanilla's at N = {first:,}; a line ends where memory runs out"
    )
    figure, axes = panels(len(titles), 2, 2.1, legend_lines(note, names, 3))
    for axis, title in zip(axes, titles, strict=True):
        for name, values in lines[title].items():
            if values:
                axis.plot(list(values), list(values.values()), label=name, **looks[name])
        axis.set_title(title)
        lengths = sorted({n for values in lines[title].values() for n in values})
        axis.set_xticks(lengths, [f"{n:,}" for n in lengths])
        logarithmic(axis)
    for axis in axes[-2:]:
        axis.set_xlabel("length N")
    legend_below(figure, note, 3)
    return save(figure, path, note)


def _by_mode(lines: Mapping[str, Lines]) -> tuple[list[str], list[str]]:
    """Titles of the left and of the right column."""
    modes = list(dict.fromkeys(title.split(",")[0] for title in lines))
    left, right = ([title for title in lines if title.startswith(mode)] for mode in modes)
    return left, right
