"""Report in the terminal: tables, then lists of sentences under their headings."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attnlab.config.message_text import table_console
from attnlab.report.failures.failure_record import SuccessReport
from attnlab.report.failures.failure_tables import failure_tables
from attnlab.report.length_tables import ABOVE, HEADING, LengthTable, flat_columns, lines_of, of_table
from attnlab.report.table_types import Table
from attnlab.report.table_writers import FIRST, details

MOST_BROKEN_DOWN = 1000
"""rows of a breakdown by length in the terminal"""

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid


def print_report(table: Table, lines: Mapping[str, Sequence[str]], success: SuccessReport | None = None) -> None:
    """Prints the answers to hypotheses, every cell with its seeds, failures, then the other sentences."""
    heads, *cells = details(table)
    console = table_console()
    _print_lines({name: lines[name] for name in FIRST})
    console.print(_terminal_grid(table.report.title, heads, cells, left=2))
    if table.report.protocol:
        console.print(f"protocol: {table.report.protocol}", highlight=False, soft_wrap=True)
    if success:
        print()
        for one in failure_tables(success):
            console.print(one.title, highlight=False, soft_wrap=True)
            console.print(_terminal_grid(None, one.heads, one.rows, left=1))
        print("\n".join(f"  {note}" for note in success.notes))
    _print_lengths(of_table(table), console)
    _print_lines({name: items for name, items in lines.items() if name not in FIRST})
    print()


def _print_lengths(tables: Sequence[LengthTable], console: "Console") -> None:
    """Prints the breakdowns by length that are not flat, and a sentence on the others."""
    if tables:
        flat = flat_columns(tables)
        console.print(f"\n{HEADING}. {ABOVE}.{f' {flat}.' if flat else ''}", highlight=False, soft_wrap=True)
    for one in (one for one in tables if not one.flat):
        if len(one.rows) > MOST_BROKEN_DOWN:
            print(f"  {one.column}: {len(one.rows):,} rows, which table.md has")
            continue
        heads, *rows = lines_of(one)
        console.print(_terminal_grid(None, heads, rows, left=1))


def _terminal_grid(title: str | None, heads: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> "Grid":
    """A table for the terminal; a name that is also in the line above is left out.

    Args:
        left: number of columns of words; the others hold numbers.
    """
    # rich takes a tenth of a second
    from rich.box import SIMPLE_HEAD
    from rich.table import Column
    from rich.table import Table as Grid

    columns = [
        Column(head, justify="right" if at >= left else "left", overflow="fold") for at, head in enumerate(heads)
    ]
    grid = Grid(*columns, box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    last = None
    for row in rows:
        grid.add_row(*("" if row[0] == last else row[0], *row[1:]))
        last = row[0]
    return grid


def _print_lines(lines: Mapping[str, Sequence[str]]) -> None:
    """Prints each list of sentences under its heading."""
    for head, items in lines.items():
        if items:
            print("\n".join([f"\n{head}", *(f"  {item}" for item in items)]))
