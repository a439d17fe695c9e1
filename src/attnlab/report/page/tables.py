"""Tables of one report as HTML: at a glance, cell by cell, differences over seeds, every seed."""

from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.report.page.elements import MINUS, NOTHING, Html, join, number, tag

Record = Mapping[str, Any]
COMPARED = ("published", f"ours {MINUS} published", "in\N{NO-BREAK SPACE}our\N{NO-BREAK SPACE}sd")
"""columns of a table beside which something was published"""


def scrollable(name: str, table: Html, above: str | None = None) -> Html:
    """A table that scrolls by itself where the screen is narrow, by keyboard too.

    Args:
        above: what it shows; no caption of the table, which would be as wide as the table.
    """
    region = tag("div", table, class_="scroll", role="region", aria_label=name, tabindex=0)
    return join([tag("p", above, class_="soft above"), region]) if above else region


def glance(report: Record) -> Html | None:
    """Rows by columns, as papers print it; None where there is one column, which the next table shows as well."""
    columns = report["columns"]
    if len(columns) < 2:
        return None
    heads = [tag("th", "", scope="col"), *(_column_head(column) for column in columns)]
    lines = []
    for row in report["rows"]:
        cells = {cell["column"]: cell for cell in row["cells"]}
        shown = (_short(cells.get(column["name"]), _unit(column)) for column in columns)
        lines.append(tag("tr", tag("th", row["name"], scope="row"), *shown))
    above = "Mean ± standard deviation (seeds)."
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *lines))
    return scrollable(f"{report['title']}: at a glance", table, above)


def cell_by_cell(report: Record) -> Html:
    """A line for every cell: ours, best and worst seed; published and difference where anything was published."""
    units = {column["name"]: _unit(column) for column in report["columns"]}
    alone, compared = len(units) == 1, any(cell.get("published") for row in report["rows"] for cell in row["cells"])
    names = ["row", *([] if alone else ["column"]), "ours: mean ± sd (seeds)", "best", "worst"]
    names += COMPARED if compared else ()
    first = 1 if alone else 2
    heads = [tag("th", name, scope="col", class_="n" if at >= first else None) for at, name in enumerate(names)]
    groups = []
    for row in report["rows"]:
        cells = row["cells"] or [None]
        head = tag("th", row["name"], scope="row" if alone else "rowgroup", rowspan=None if alone else len(cells))
        lines = [
            tag("tr", head if at == 0 else None, *_line(cell, units, alone, compared)) for at, cell in enumerate(cells)
        ]
        groups.append(tag("tbody", *lines, class_="group"))
    above = f"Every cell{_all_in(units)}; n of m: some seeds have no number."
    table = tag("table", tag("thead", tag("tr", *heads)), *groups)
    return scrollable(f"{report['title']}: cell by cell", table, above)


def differences(report: Record) -> Html | None:
    """Differences between rows with their intervals, or None."""
    comparisons = report.get("comparisons") or []
    if not comparisons:
        return None
    units = {column["name"]: _unit(column) for column in report["columns"]}
    lines = []
    for one in comparisons:
        unit, ends = units.get(one["column"], ""), (one["low"], one["high"])
        sure = "bootstrap" in (one.get("method") or "")
        inside = sure and None not in ends and ends[0] <= 0 <= ends[1]
        interval = f"{number(ends[0], unit, True)} to {number(ends[1], unit, True)}" if None not in ends else NOTHING
        lines.append(
            tag(
                "tr",
                tag("th", f"{one['row']} {MINUS} {one['against']}", scope="row"),
                tag("td", one["column"]),
                tag("td", number(one["difference"], unit, True), class_="n"),
                tag("td", interval, tag("small", "holds zero") if inside else None, class_="n"),
                tag("td", one.get("method") or ""),
            )
        )
    names = (("rows", None), ("column", None), ("difference", "n"), ("from, to", "n"), ("how", None))
    heads = [tag("th", name, scope="col", class_=style) for name, style in names]
    above = (
        "Differences between rows, over seeds. A bootstrap interval that holds zero leaves open which row is better; "
        "the range over a few seeds is no such interval and says nothing of the kind."
    )
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *lines))
    return scrollable(f"{report['title']}: differences", table, above)


def every_seed(report: Record) -> Html:
    """What every run gave, folded away."""
    lines = []
    for row in report["rows"]:
        for cell in row["cells"]:
            unit = next(_unit(column) for column in report["columns"] if column["name"] == cell["column"])
            for seed in cell["seeds"]:
                state = seed["state"] + (f": {seed['reason']}" if seed.get("reason") else "")
                value = tag("td", number(seed["value"], unit), class_="n")
                names = (row["name"], cell["column"], str(seed["seed"]))
                place = tag("td", tag("code", seed.get("folder") or ""))
                lines.append(tag("tr", *(tag("td", name) for name in names), value, tag("td", state), place))
    names = ("row", "column", "seed", "value", "state", "run folder")
    heads = [tag("th", name, scope="col", class_="n" if name == "value" else None) for name in names]
    table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *lines))
    body = scrollable(f"{report['title']}: every seed", table)
    return tag("details", tag("summary", f"Every seed ({len(lines)} values)"), body)


def lacking(report: Record) -> int:
    """How many cells have no number at all."""
    return sum(cell["mean"] is None for row in report["rows"] for cell in row["cells"])


def _unit(column: Record) -> str:
    return column.get("unit") or ""


def _column_head(column: Record) -> Html:
    unit = _unit(column)
    return tag(
        "th", column["name"], tag("small", unit) if unit and unit != column["name"] else None, scope="col", class_="n"
    )


def _all_in(units: Mapping[str, str]) -> str:
    return f", in {next(iter(units.values()))}" if len(set(units.values())) == 1 and any(units.values()) else ""


def _line(cell: Record | None, units: Mapping[str, str], alone: bool, compared: bool) -> list[Html]:
    if cell is None:
        return [tag("td", "no cell", colspan=(3 if alone else 4) + len(COMPARED) * compared)]
    unit = units[cell["column"]]
    shown = unit if unit and unit != cell["column"] and not _all_in(units) else ""
    in_sd = cell.get("difference_in_sd")
    values = [_ours(cell, unit), _extreme(cell.get("best"), unit), _extreme(cell.get("worst"), unit)]
    if compared:
        values += [_published(cell.get("published"), unit), number(cell.get("difference"), unit, signed=True)]
        values.append(number(in_sd, "", signed=True))
    name = tag("td", cell["column"], tag("small", shown) if shown else None)
    return [*([] if alone else [name]), *(tag("td", value, class_="n") for value in values)]


def _ours(cell: Record, unit: str) -> Html:
    """Mean and spread, or the seeds where these fall into two groups, or why there is no number."""
    if cell["mean"] is None:
        states = dict.fromkeys("no number" if s["state"] == "finished" else s["state"] for s in cell["seeds"])
        return tag("span", ", ".join(states) or "missing", class_="mark")
    total = len(cell["seeds"])
    count = f"{cell['n']}" if cell["n"] == total else f"{cell['n']} of {total}"
    mean = f"{_spread(cell['mean'], cell.get('sd'), unit)} ({count})"
    chosen = tag("small", f"best of those tried: {cell['chosen']}") if cell.get("chosen") else None
    if not cell.get("bimodal"):
        return join(part for part in (mean, chosen) if part)
    values = sorted(seed["value"] for seed in cell["seeds"] if seed["value"] is not None)
    seeds = ", ".join(number(value, unit) for value in values)
    return join(part for part in (tag("span", seeds), tag("small", f"in two groups; mean {mean}"), chosen) if part)


def _short(cell: Record | None, unit: str) -> Html:
    if cell is None:
        return tag("td", NOTHING, class_="n")
    published = cell.get("published")
    below = tag("small", f"published {_published(published, unit)}") if published else None
    return tag("td", _ours(cell, unit), below, class_="n")


def _spread(value: float, sd: float | None, unit: str) -> str:
    return number(value, unit) + (f" ± {number(sd, unit, like=value)}" if sd is not None else "")


def _extreme(pair: Sequence[Any] | None, unit: str) -> Html | str:
    return NOTHING if pair is None else join((number(pair[1], unit), tag("small", f"seed\N{NO-BREAK SPACE}{pair[0]}")))


def _published(published: Record | None, unit: str) -> str:
    if not published or (published["value"] is None and not published.get("text")):
        return NOTHING
    text = published.get("text") or ""
    if published["value"] is None:
        return text
    return _spread(published["value"], published.get("spread"), unit) + (f" ({text})" if text else "")
