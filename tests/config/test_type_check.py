"""Values and records of files against their types."""

import pickle
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from attnlab.config.validation.type_check import Record, accepts, build, conform, describe, record_problem


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (3, int, True),
        (3.0, int, False),
        (True, int, False),
        (3, float, True),
        (True, float, False),
        (float("nan"), float, False),
        ("3", float, False),
        (1, bool, False),
        (None, int | None, True),
        ("epoch", int | Literal["epoch"] | None, True),
        ("x", int | Literal["epoch"] | None, False),
        (True, Literal[1], False),
        (0.0, Annotated[float, "(0, 1]"], False),
        (1.0, Annotated[float, "(0, 1]"], True),
        (1.0, Annotated[float, "[0, 1)"], False),
        (0, Annotated[int, "[0, inf)"], True),
        (-5, Annotated[int, "(-inf, 3]"], True),
        (5, Annotated[int, "[1, 3]"] | None, False),
        (5, Annotated[int, "[1, inf) up to 4"], False),
        (4, Annotated[int, "[1, inf) up to 4"], True),
        (10**15, Annotated[int, "[1, 1e15]"], True),
        (10**400, int, False),
        (float("inf"), float, False),
        ([1, 2], list[int], True),
        (3, list[int], False),
        ({"a": 1}, dict[str, Any], True),
        ("anything", Any, True),
        (object(), Path, True),
        (10**400, Integral, True),
        (float("nan"), Real, True),
        (True, Real, False),
        ([1, 0.5], tuple[int, float], True),
        ([1, 2, 3], tuple[int, float], False),
        ([1, "x"], tuple[int, float] | None, False),
    ],
)
def test_values_fit_their_types(value: Any, kind: Any, fits: bool) -> None:
    assert (not conform(value, kind, "key")) == fits
    assert accepts(value, kind) == fits or isinstance(value, list)


def test_a_number_far_below_any_use_is_a_slip() -> None:
    assert conform(-1e300, float, "key") == ["key=-1e+300: expected a number; less than -1e+30 is taken for a slip"]


@dataclass(frozen=True)
class Line(Record):
    name: str
    ends: tuple[int, Real] | None = None


@dataclass(frozen=True)
class Content(Record):
    lines: list[Line]
    first: Line | None = None


def test_records_of_files_are_checked_and_built() -> None:
    """The first misfit is named, unknown keys are left out, missing keys get their defaults."""
    known = {"lines": [{"name": "a", "ends": [1, 2.5], "colour": "red"}], "first": None, "version": 2}
    assert record_problem(known, Content) is None
    assert build(Content, known) == Content(lines=[Line("a", [1, 2.5])])
    for content, problem in (
        ([], "the file: expected an object"),
        ({"lines": None}, "lines: expected a list"),
        ({"lines": [{"name": "a"}, {}]}, "lines.1.name: missing"),
        ({"lines": [3]}, "lines.0: expected an object"),
        ({"lines": [{"name": 3}]}, "lines.0.name: expected text, found 3"),
        (
            known | {"first": {"name": "b", "ends": [1]}},
            "first.ends: expected [a whole number, a number] or null, found [1]",
        ),
    ):
        assert record_problem(content, Content) == problem


def test_types_are_described_in_words() -> None:
    assert describe(Annotated[int, "[1, 47]"]) == "a whole number >= 1 and <= 47"
    assert describe(Annotated[int, "[1, inf) up to 1e4"]) == "a whole number >= 1", "no limit unless it is exceeded"
    assert describe(int | Literal["epoch"] | None) == "a whole number or epoch or null"
    assert describe(list[float]) == "a list, each a number"
    assert conform([1, "x"], list[int], "a") == ["a.1=x: expected a whole number"]
    (problem,) = conform([1, "x"], list[int], "a")
    for each in (problem, pickle.loads(pickle.dumps(problem))):
        assert (each.key, each) == ("a.1", "a.1=x: expected a whole number")


def test_a_value_that_was_accepted_says_nothing_about_equal_ones_of_other_types() -> None:
    @dataclass
    class Section:
        number: Annotated[int, "[1, inf)"] | None
        flag: bool

    for _ in range(2):
        assert not conform({"number": 1, "flag": True}, Section, "")
        assert conform({"number": True, "flag": 1}, Section, "") == [
            "number=true: expected a whole number >= 1 or null",
            "flag=1: expected true or false",
        ]
        assert conform({"number": 1.0, "flag": True}, Section, "")
