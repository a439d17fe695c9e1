"""Cells of csv files, for tables and beside pictures."""

from typing import Any


def csv_cell(value: Any) -> Any:
    """A value for a csv file; text that a spreadsheet would compute (`=...`) gets an apostrophe in front.

    Numbers stay as they are, also numbers in text (`-0.1`).
    """
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        try:
            float(value)
        except ValueError:
            return f"'{value}"
    return value
