"""Cells of csv files, for tables and beside pictures."""

from typing import Any


def csv_cell(value: Any) -> Any:
    """A value for a csv file; text that a spreadsheet would compute (`=...`) gets an apostrophe in front.

    Numbers stay as they are, also numbers in text (`-0.1`).
    """
    if not isinstance(value, str) or not value.startswith(("=", "+", "-", "@", "\t", "\r")) or _is_number(value):
        return value
    return f"'{value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
