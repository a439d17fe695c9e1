"""JSON without words that JSON does not have: numbers that are not finite are null, and the record says which they are.

`{"metrics": {"loss": null}, "not_finite": {"metrics": {"loss": "nan"}}}` is read as `{"metrics": {"loss": nan}}`.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

NOT_FINITE = "not_finite"
"""entry of a record with the places of its numbers that are not finite, each as `nan`, `inf` or `-inf`"""
_NUMBERS = {repr(number): number for number in (math.nan, math.inf, -math.inf)}


def json_text(record: Any, default: Callable[[Any], Any] | None = None, **options: Any) -> str:
    """Text of a record, a mapping or what `default` makes one of; options are those of `json.dumps`."""
    try:
        return json.dumps(record, default=default, allow_nan=False, **options)
    except ValueError:
        plain = json.loads(json.dumps(record, default=default))
        return json.dumps(plain | {NOT_FINITE: _taken_out(plain)}, allow_nan=False, **options)


def _taken_out(part: Any) -> dict[str, Any]:
    """Replaces the numbers of a part that are not finite by null; returns them by their places."""
    named: dict[str, Any] = {}
    places = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for place, value in list(places):
        if isinstance(value, float) and not math.isfinite(value):
            part[place], named[str(place)] = None, repr(value)
        elif inner := _taken_out(value):
            named[str(place)] = inner
    return named


def restored(record: Any) -> Any:
    """A parsed record with its numbers in their places. Raises ValueError: its `not_finite` fits no null in it."""
    if isinstance(record, dict) and NOT_FINITE in record:
        try:
            _put_back(record, record.pop(NOT_FINITE))
        except (LookupError, TypeError, AttributeError):
            raise ValueError(f"{NOT_FINITE} names what is not there") from None
    return record


def _put_back(part: Any, named: Mapping[str, Any]) -> None:
    for name, value in named.items():
        place = int(name) if isinstance(part, list) else name
        if part[place] is None:
            part[place] = _NUMBERS[value]
        else:
            _put_back(part[place], value)
