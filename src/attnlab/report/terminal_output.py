"""A report in the terminal: the table, and what must be known beside it."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid

from attnlab.report.table_types import Table
from attnlab.report.table_writers import details


def print_report(table: Table, lines: Mapping[str, Sequence[str]]) -> None:
    """Every cell with its seeds; under their headings, the lists that are not empty."""
    heads, *cells = details(table)
    grid = Grid(box=SIMPLE_HEAD, title=table.report.title, title_justify="left", pad_edge=False)
    for number, head in enumerate(heads):
        grid.add_column(head, justify="right" if number > 1 else "left", overflow="fold")
    last = None
    for row in cells:
        grid.add_row(*("" if row[0] == last else row[0], *row[1:]))
        last = row[0]
    console = Console()
    # in a file or a pipe nothing needs to be folded
    Console(width=None if console.is_terminal else 200, markup=False).print(grid)
    if table.report.protocol:
        console.print(f"protocol: {table.report.protocol}", highlight=False, markup=False, soft_wrap=True)
    for head, items in lines.items():
        if items:
            print("\n".join([f"\n{head}", *(f"  {item}" for item in items)]))
    print()
