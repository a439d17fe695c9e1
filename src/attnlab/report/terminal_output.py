"""Prints a report in the terminal: the table, then notes."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

from attnlab.report.table_types import Table
from attnlab.report.table_writers import details


def print_report(table: Table, lines: Mapping[str, Sequence[str]]) -> None:
    """Prints every cell with its seeds, then each list of sentences under its heading."""
    heads, *cells = details(table)
    grid = Grid(box=SIMPLE_HEAD, title=table.report.title, title_justify="left", pad_edge=False)
    for number, head in enumerate(heads):
        grid.add_column(head, justify="right" if number > 1 else "left", overflow="fold")
    last = None
    for row in cells:
        grid.add_row(*("" if row[0] == last else row[0], *row[1:]))
        last = row[0]
    console = Console()
    # a file or a pipe takes long lines
    Console(width=None if console.is_terminal else 200, markup=False).print(grid)
    if table.report.protocol:
        console.print(f"protocol: {table.report.protocol}", highlight=False, markup=False, soft_wrap=True)
    for head, items in lines.items():
        if items:
            print("\n".join([f"\n{head}", *(f"  {item}" for item in items)]))
    print()
