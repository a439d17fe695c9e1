"""Figure of `benchmarks.table7`: speed and memory over length, measured and published, relative to vanilla.

It is drawn from the tables as markdown, `table7.md` or a README with them, so that it can be drawn again without
measuring again. Colours are families of mechanisms, markers and dashes are models.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.plots.style import COLOURS, EDGE, LINES, STRONG, legend_below, legend_lines, logarithmic, panels, save
from attnlab.report.published_numbers import published_table
from benchmarks.harness.table7_findings import BASELINE, MEMORY, PUBLISHED, RATIO, SPEED
from benchmarks.harness.tables import is_number

Lines = dict[str, dict[int, float]]
"""values by model and length, over vanilla's at its first length"""
FAMILIES = {
    EDGE: ("vanilla", "vanilla_fused"),
    COLOURS[0]: ("flash_quad", "flash"),
    COLOURS[3]: ("long_short", "reformer"),
    COLOURS[1]: ("performer", "cosformer"),
    COLOURS[2]: ("linformer", "nystromformer"),
    STRONG: ("transnormer_t1", "transnormer_t2"),
}
"""models by colour: softmax, chunked, sparse, kernels, low rank, TransNormer"""
FIRST: Any = {"linestyle": "-", "marker": "o", "markerfacecolor": "white", "markersize": 5, "linewidth": 1.4}
SECOND: Any = {"linestyle": LINES[0], "marker": "s", "markersize": 4, "linewidth": 1.4}
STRONGEST: Any = {"linestyle": "-", "marker": "o", "markersize": 5, "linewidth": 2.4, "zorder": 3}
_TITLE = re.compile(r"\*\*Table 7, (?P<mode>\w+), batch (?P<batch>\d+): (?P<subject>.+)\*\*")
DOUBLED = 8
"""ratio of the longest and the shortest length from which the axis of lengths is logarithmic"""


def speed_by_length(text: str, path: Path) -> Path:
    """Draws a row of panels for measured speed, published speed and measured memory, a column for each mode.

    Args:
        text: the tables as markdown.

    Raises:
        ValueError: there are no such tables, or vanilla has no number at the shortest length.
    """
    batch, measured = tables(text)
    modes = list(dict.fromkeys(mode for mode, _ in measured))
    first = min(measured[modes[0], SPEED][BASELINE])
    rows = (
        (f"speed, over vanilla's\nat N = {first:,}", lambda mode: _speed(measured[mode, SPEED], measured[mode, RATIO])),
        ("published speed, over\nvanilla's at 1K", _published),
        (f"peak memory, over\nvanilla's at N = {first:,}", lambda mode: measured[mode, MEMORY]),
    )
    looks = _looks(list(measured[modes[0], SPEED]))
    note = f"measured with batch {batch}, published on one A6000; a line ends where memory runs out"
    height, lines = 2.1, legend_lines(note, list(looks), 3)
    figure, axes = panels(len(rows) * len(modes), len(modes), height, lines, sharey="row")
    for number, axis in enumerate(axes):
        (name, lines_of), mode = rows[number // len(modes)], modes[number % len(modes)]
        values = _over_vanilla(lines_of(mode))
        for model in (model for model in looks if model in values):
            axis.plot(list(values[model]), list(values[model].values()), label=model, **looks[model])
        axis.set_title(mode if number < len(modes) else "")
        axis.set_ylabel(name if number % len(modes) == 0 else "")
        axis.set_xlabel("length N (tokens)")
        _lengths(axis)
    for axis in axes[:: len(modes)]:
        logarithmic(axis)
    legend_below(figure, note, 3)
    return save(figure, path, note)


def tables(text: str) -> tuple[int, dict[tuple[str, str], Lines]]:
    """The batch, and the tables by mode and title; cells without a number are left out."""
    collected: dict[tuple[str, str], Lines] = {}
    batch, lengths, lines = 0, dict[int, int](), Lines()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if title := _TITLE.match(line):
            batch, lengths, lines = int(title["batch"]), {}, {}
            if title["subject"] in (SPEED, RATIO, MEMORY):
                collected[title["mode"], title["subject"]] = lines
        elif cells[0] == "model":
            lengths = {at: int(cell.removeprefix("N=")) for at, cell in enumerate(cells) if cell.startswith("N=")}
        elif lengths and len(cells) > max(lengths) and not cells[0].startswith("---"):
            numbers = {n: cells[at].split(" ")[0] for at, n in lengths.items()}
            lines[cells[0]] = {n: float(number) for n, number in numbers.items() if is_number(number)}
    if not collected:
        raise ValueError("no table of benchmarks.table7 was found")
    return batch, collected


def _speed(rates: Lines, ratios: Lines) -> Lines:
    """Steps a second: vanilla's rate times the ratio to it in the same turns, where both are known, as it is less
    disturbed by other work on the machine than a rate."""
    vanilla = rates.get(BASELINE, {})
    return {
        name: {
            n: ratios[name][n] * vanilla[n] if n in vanilla and n in ratios[name] else rate for n, rate in line.items()
        }
        for name, line in rates.items()
    }


def _published(mode: str) -> Lines:
    """The published speed of every model by length."""
    result = Lines()
    for (name, column), cell in published_table(PUBLISHED).cells.items():
        of, _, thousands = column.rpartition("_")
        if of == mode and cell.value is not None:
            result.setdefault(name, {})[1000 * int(thousands.removesuffix("k"))] = cell.value
    return result


def _over_vanilla(lines: Lines) -> Lines:
    """Values over vanilla's at the first length."""
    first = min((n for values in lines.values() for n in values), default=0)
    if first not in lines.get(BASELINE, {}):
        raise ValueError(f"{BASELINE} has no number at the shortest length, and lines are relative to it")
    base = lines[BASELINE][first]
    return {name: {n: value / base for n, value in values.items()} for name, values in lines.items() if values}


def _looks(names: list[str]) -> Mapping[str, dict[str, Any]]:
    """The look of every model."""
    collected = {
        name: {"color": colour, **(STRONGEST if colour == STRONG and at else SECOND if at else FIRST)}
        for colour, members in FAMILIES.items()
        for at, name in enumerate(members)
    }
    return {name: look for name, look in collected.items() if name in names}


def _lengths(axis: Any) -> None:
    """Ticks at the lengths."""
    lengths = sorted({int(n) for line in axis.get_lines() for n in line.get_xdata()})
    if lengths[-1] >= DOUBLED * lengths[0]:
        axis.set_xscale("log")
    axis.set_xticks(lengths, [f"{n:,}" for n in lengths])
    axis.minorticks_off()
