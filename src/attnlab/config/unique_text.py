"""Values as text for names of run folders: one text for each value, safe in file names."""

import re
from typing import Any
from urllib.parse import quote


def unique_text(value: Any) -> str:  # noqa: PLR0911
    """A value as unique text, safe in file names: equal numbers alike (1e-3, 0.001; 5, 5.0), lists joined by +."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float() if value.is_integer() and abs(value) < 1e16:
            return str(int(value))
        case float() | int():
            return re.sub(r"e\+?(-?)0*", r"e\1", repr(value))
        case list() if not any(isinstance(item, (list, dict)) for item in value):
            # Lists of fewer than two items end with a plus, unlike the item alone.
            return "+".join(map(unique_text, value)) + ("+" if len(value) < 2 else "")
        case str():
            return quote(f"'{value}'" if _reads_otherwise(value) else value, safe="")
    return quote(repr(value), safe="")


def _reads_otherwise(text: str) -> bool:
    """Whether text without quotes would be read as a number, a truth value or null."""
    try:
        float(text)
    except ValueError:
        return text in ("", "null", "true", "false")
    return True
