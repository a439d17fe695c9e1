"""HTML elements whose text is always escaped, and numbers as a reader writes them."""

import html
from collections.abc import Iterable

from attnlab.learn import metric_units

_EMPTY = ("img", "meta")
MINUS, NOTHING = "\N{MINUS SIGN}", "\N{EN DASH}"


class Html(str):
    """Text that is HTML already; any other text is escaped where it becomes part of an element."""


def join(parts: Iterable[str], between: str = "") -> Html:
    """Parts in a row, plain text escaped."""
    return Html(Html(_safe(between)).join(_safe(part) for part in parts))


def tag(name: str, /, *children: str | None, **attributes: str | int | None) -> Html:
    """An element.

    Args:
        children: elements or plain text; None is left out.
        attributes: `class_` and `for_` lose their underscore, others turn it into a hyphen; None is left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(child for child in children if child is not None)}</{name}>")


def _safe(text: str) -> str:
    return text if isinstance(text, Html) else html.escape(text)


def number(value: float | None, unit: str, signed: bool = False, like: float | None = None) -> str:
    """As `learn.metric_units.number`, with a real minus; a dash for none."""
    return NOTHING if value is None else metric_units.number(value, unit, signed, like).replace("-", MINUS)


def duration(seconds: float | int) -> str:
    """Seconds, and minutes or hours beside them where these are easier to read."""
    text = metric_units.text("seconds", seconds)
    if metric_units.problem("seconds", seconds) or seconds >= metric_units.LONG:
        return text
    if seconds >= 2 * 3600:
        return f"{text} ({seconds / 3600:.1f} hours)"
    return f"{text} ({seconds / 60:.0f} minutes)" if seconds >= 120 else text
