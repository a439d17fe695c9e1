"""Tables of results: on the screen, as csv with the environment of the measurement, and as markdown.

The csv files lie in benchmarks/results, or in the folder that the environment variable BENCHMARK_RESULTS names.
"""

import csv
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from attnlab.config.message_text import table_console

RESULTS = Path(os.environ.get("BENCHMARK_RESULTS", Path(__file__).resolve().parents[1] / "results"))
ENVIRONMENT = ("date", "device", "cpu", "threads", "load_before", "torch", "cuda", "fla", "commit", "command")

Row = Mapping[str, object]


def show(name: str, title: str, rows: Iterable[Row], environment: Row, folder: Path = RESULTS) -> Path | None:
    """Write rows to `<folder>/<name>-<time>.csv`, each as it comes, and print them as a table; returns the file, None
    without rows.

    Args:
        rows: each with the same columns; names carry their units. Rows that are measured on the way (an iterator) are
            printed as lines too: a benchmark that is stopped has shown and written what it has measured.
        environment: from `environment.begin`; every csv row holds it too.
    """
    file, shown = folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.csv", list[Row]()
    for row in rows:
        if not isinstance(rows, Sequence):
            print(", ".join(f"{column} {cell(value)}" for column, value in row.items() if value != ""), flush=True)
        write(file, {**row, **{key: environment[key] for key in ENVIRONMENT}, "title": title}, first=not shown)
        shown.append(row)
    if not shown:
        print(f"{title}: nothing to show")
        return None
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for column in shown[0]:
        table.add_column(column, justify="right" if is_number(shown[0][column]) else "left")
    for row in shown:
        table.add_row(*map(cell, row.values()))
    table_console().print(table)
    print(f"written to {os.path.relpath(file)}\n", flush=True)
    return file


def write(file: Path, row: Row, first: bool) -> None:
    """Write a row at the end of a csv; the first one begins the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w" if first else "a", newline="") as out:
        writer = csv.DictWriter(out, list(row))
        if first:
            writer.writeheader()
        writer.writerow(row)


def is_number(value: object) -> bool:
    """Whether a value, as text, is a number."""
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def cell(value: object) -> str:
    """Returns a number at three significant digits, or all before the point; whole numbers and text stay."""
    text = str(value)
    if not is_number(text) or text.lstrip("-").isdigit():
        return text
    number = float(text)
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:#.3g}".rstrip(".")


def markdown(file: Path) -> str:
    """Returns a csv as a markdown table, with the environment of the measurement above it."""
    rows = read(file)
    first = rows[0]
    columns = [column for column in first if column not in (*ENVIRONMENT, "title")]
    hardware = first["cpu"] if first.get("device", "cpu") == "cpu" else f"{first['device']}, {first['cpu']}"
    where = [
        f"`{first['command']}`: {first['date']}, {hardware}, {first['threads']} threads, load before the start "
        f"{first['load_before']}, torch {first['torch']}, commit {first['commit']}",
        "",
    ]
    lines = [
        f"**{first['title']}**",
        "",
        *(where if first["command"] else ()),
        f"| {' | '.join(columns)} |",
        f"|{'|'.join('---:' if is_number(first[column]) else '---' for column in columns)}|",
    ]
    return "\n".join(lines + [f"| {' | '.join(cell(row[column]) for column in columns)} |" for row in rows])


def read(file: Path) -> list[dict[str, str]]:
    """Returns the rows of a csv, columns of the environment included."""
    with file.open(newline="") as source:
        return list(csv.DictReader(source))
