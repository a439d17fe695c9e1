"""JSON of records with numbers that are not finite."""

import json
import math
from dataclasses import dataclass
from typing import Any

import pytest

from attnlab.config.plain_json import json_text, restored

RECORD = {
    "metrics": {"val/loss": math.nan, "val/accuracy": 0.5},
    "list": [1.0, math.inf, {"x": -math.inf}, [math.nan]],
    "none": None,
}


def strict(text: str) -> Any:
    """Parsed as every other reader of JSON does it: a bare NaN is an error."""

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_numbers_that_are_not_finite_are_null_and_named() -> None:
    content = strict(json_text(RECORD, indent=1))
    assert content["metrics"] == {"val/loss": None, "val/accuracy": 0.5}
    assert content["not_finite"] == {
        "metrics": {"val/loss": "nan"},
        "list": {"1": "inf", "2": {"x": "-inf"}, "3": {"0": "nan"}},
    }
    assert repr(restored(content)) == repr(RECORD)
    assert math.isnan(RECORD["metrics"]["val/loss"]), "the record itself is as it was"


def test_finite_records_are_written_as_ever() -> None:
    record = {"a": [1, 2.5, None], "b": "nan"}
    assert json_text(record, indent=2) == json.dumps(record, indent=2)
    assert restored(json.loads(json_text(record))) == record


def test_parts_of_other_types_are_looked_into() -> None:
    @dataclass
    class Part:
        value: float

    assert strict(json_text({"part": Part(math.inf)}, default=vars))["not_finite"] == {"part": {"value": "inf"}}


@pytest.mark.parametrize(
    "named", [{"b": "nan"}, {"a": "text"}, {"a": 3}, ["a"], "nan", {"list": {"7": "nan"}}, {"list": {"x": "nan"}}, None]
)
def test_names_that_fit_nothing_are_refused(named: Any) -> None:
    with pytest.raises(ValueError, match=r"not_finite|invalid literal"):
        restored({"a": None, "list": [None], "not_finite": named})
