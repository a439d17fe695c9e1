"""Units of metrics: how a number is shown, which of two is better, which is possible; and the main metrics of a run.

Used by all tables, pages, figures and lines in a terminal. Imports no torch, so that reports start fast.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from attnlab.config.message_text import listed
from attnlab.config.plain_yaml import table_beside

LARGEST = 1e300
"""limit of recorded numbers: sums and percentages of larger ones would not be finite"""
LONG = 1e9
"""numbers from here on are written with an exponent"""
MOST_DIGITS = 8
"""after the decimal point"""
NOT_FINITE = "not finite"
LOGGED = ("val/", "train/", "test_curve/")
"""begin the names of metrics in metrics.csv, which have a number at several steps"""
MOST_LENGTHS = 8
"""lengths that a line about a metric names"""
MOST_LISTED = 4
"""metrics that a line about a shortcut names"""


@dataclass(frozen=True)
class Unit:
    """Unit of one kind of number.

    name:    in table headers and in report.json.
    sign:    after a number in running text.
    factor:  shown number / recorded number.
    digits:  after the decimal point; none from a thousand on.
    significant: digits that small numbers show at least, with more of them after the decimal point.
    has_better: whether one direction is better.
    least, most: range of possible values.
    """

    name: str
    sign: str = ""
    factor: float = 1.0
    digits: int = 2
    significant: int = 1
    lower_is_better: bool = False
    has_better: bool = True
    least: float = -LARGEST
    most: float = LARGEST

    @property
    def worst(self) -> float:
        """The worst possible number, as shown."""
        return self.factor * (self.most if self.lower_is_better else self.least)

    @property
    def best(self) -> float:
        """The best possible number, as shown."""
        return self.factor * (self.least if self.lower_is_better else self.most)


LARGEST_OF = "_max"
"""end of the name of a metric's largest value over all steps since the row before"""

_TABLE = table_beside(__file__)
_KINDS = {kind: Unit(**fields) for kind, fields in _TABLE["kinds"].items()}
SHARE, RATIO = _KINDS["share"], _KINDS["ratio"]
OF_RUNS = {name: Unit(**fields) for name, fields in _TABLE["of_runs"].items()}
"""numbers of runs other than metrics: of result.json, and `STEP_TIME` of status.json"""
STEP_TIME = "step_seconds"
"""the one cost that hypotheses may be about, as runs of a seed follow each other on one machine"""
_NAMED = {unit.name: unit for unit in (*_KINDS.values(), *OF_RUNS.values())}
_SUMMARY = re.compile(r"(?P<function>relative_sd|max)\((?P<name>[\w/.]+)\)")


def summary_of(metric: str) -> tuple[str, str] | None:
    """Function and name of a summary of logged values, `relative_sd(train/gradient_norm)` or `max(...)`; else None."""
    match = _SUMMARY.fullmatch(metric)
    return (match["function"], match["name"]) if match else None


@lru_cache(maxsize=2**12)
def unit_of(metric: str) -> Unit:
    """The unit of a metric (`test/ood/sequence_accuracy`) or of another number of a run (`seconds`).

    The name of a perplexity says its token (`word perplexity`): perplexities of different tokens do not compare.
    """
    if metric in OF_RUNS:
        return OF_RUNS[metric]
    if summary := summary_of(metric):
        return RATIO if summary[0] == "relative_sd" else unit_of(summary[1])
    last = metric.rpartition("/")[2]
    kind = next((_TABLE["words"][word] for word in last.split("_") if word in _TABLE["words"]), None)
    unit = Unit("") if kind is None else _KINDS[kind]
    return unit if unit.name else replace(unit, name=last.replace("_", " "))


def has_unit(metric: str) -> bool:
    """Whether a word of a metric's name says its unit, and with it which of two numbers is better."""
    return any(word in _TABLE["words"] for word in metric.split("_"))


def same_unit(name: str, published: str) -> bool:
    """Whether a published number has the unit of a column; papers say perplexity for every kind."""
    return published in (name, name.rpartition(" ")[2])


def lower_is_better(metric: str) -> bool:
    return unit_of(metric).lower_is_better


def problem(metric: str, value: float | int) -> str:
    """Why a recorded number is not a possible value of a metric; empty for possible values."""
    unit, number = unit_of(metric), as_float(value)
    if not math.isfinite(number):
        return NOT_FINITE
    # single precision may exceed the range a little
    slack = 1e-6 if unit.most <= 1 else 0.0
    if number < unit.least - slack or (number > unit.most + slack and unit.most < LARGEST):
        return f"not in [{unit.least:g}, {unit.most:g}]" if unit.most < LARGEST else f"less than {unit.least:g}"
    return "too large to be averaged" if number > LARGEST else ""


def as_float(value: float | int) -> float:
    """A number of a JSON file as a float; infinite for integers that are too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def scaled(metric: str, value: float | int) -> float:
    """A recorded number in its unit: in percent, in millions."""
    return unit_of(metric).factor * as_float(value)


def number(
    value: float | int, unit: str, signed: bool = False, like: float | int | None = None, bounds: Iterable[float] = ()
) -> str:
    """Text of a number that is already in its unit, without the unit's sign, for all tables and pages.

    Args:
        unit: the name of a unit.
        signed: with a plus sign, for differences; with the digits that show on which side of 0 it lies.
        like: a number whose digits are used, such as the mean for a standard deviation.
        bounds: numbers on whose sides it is to be seen: it has more digits where it would round to one of them.
    """
    shown = as_float(value)
    if not math.isfinite(shown):
        return NOT_FINITE
    size = abs(shown if like is None else as_float(like))
    if max(size, abs(shown)) >= LONG:
        text = f"{shown:.2e}"
    else:
        # 53.349999999999994, which is 100 * 0.5335, rounds as 53.35 does
        value, digits = float(f"{shown:.12g}"), _digits(size, _NAMED.get(unit, Unit(unit)))
        sides = [*bounds, 0.0] if signed else [*bounds]
        enough = (more for more in range(digits, MOST_DIGITS + 1) if all(_same_side(value, more, end) for end in sides))
        text = f"{value:,.{next(enough, digits)}f}"
    text = text if text.strip("-0.") else text.removeprefix("-")
    return f"+{text}" if signed and shown > 0 and text.strip("0.") else text


def _same_side(value: float, digits: int, bound: float) -> bool:
    """Whether a rounded number is above, at or below a bound as the number is."""
    rounded = float(f"{value:.{digits}f}")
    return (rounded > bound, rounded < bound) == (value > bound, value < bound)


def _digits(size: float, unit: Unit) -> int:
    """Digits after the decimal point of a number of some size."""
    if size >= 1000:
        return 0
    # 0.0214 million needs four for three significant ones
    needed = unit.significant - 1 - math.floor(math.log10(size)) if unit.significant > 1 and size > 0 else 0
    return max(unit.digits, min(needed, MOST_DIGITS))


def text(metric: str, value: float | int) -> str:
    """Text of a recorded number with its unit: `99.7 %`; an impossible value as it is, with the reason."""
    if wrong := problem(metric, value):
        return f"{as_float(value):g} ({wrong})"
    unit = unit_of(metric)
    return f"{number(scaled(metric, value), unit.name)} {unit.sign}".rstrip()


def label(name: str, unit: str) -> str:
    """Name of a measured number, with its unit in parentheses where the name does not contain it."""
    if unit == SHARE.name:
        return f"{name} (%)"
    return name if unit in name.replace("_", " ") else f"{name} ({unit.removesuffix(f' {name}')})"


def shortcut_lines(shortcuts: Mapping[str, Mapping[str, float]], names: Iterable[str]) -> list[str]:
    """The best shortcut in each of these metrics that has one, as lines of text; equal ones share a line."""
    together: dict[str, list[str]] = {}
    for name in names:
        for shortcut, value in best_first(name, shortcuts.get(name, {}).items())[:1]:
            together.setdefault(f"{text(name, value)} ({shortcut})", []).append(name)
    return [f"shortcut in {listed(metrics, MOST_LISTED)}: {best}" for best, metrics in together.items()]


def length_lines(metrics: Mapping[str, Any]) -> list[str]:
    """The main metrics by length, as lines of text; of many lengths, `MOST_LENGTHS` at equal steps."""
    lines = []
    for name in headlines(metrics):
        subset, _, last = name.rpartition("/")
        lengths = [key for key in metrics if re.fullmatch(rf"{re.escape(subset)}/length_\w+/{re.escape(last)}", key)]
        if len(lengths) > 1:
            chosen = [lengths[round(i)] for i in _steps(len(lengths) - 1)]
            parts = [f"{key.split('/')[-2].removeprefix('length_')}: {text(key, metrics[key])}" for key in chosen]
            of = f" ({len(chosen)} of {len(lengths)} lengths)" if len(chosen) < len(lengths) else ""
            lines.append(f"{name} by length{of}: {', '.join(parts)}")
    return lines


def _steps(last: int) -> list[float]:
    """At most `MOST_LENGTHS` numbers from 0 to the last one, at equal steps."""
    parts = min(last, MOST_LENGTHS - 1)
    return [i * last / parts for i in range(parts + 1)]


def best_first(metric: str, pairs: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Names and their values of a metric from the best to the worst; equal ones keep their order."""
    return sorted(pairs, key=lambda pair: pair[1], reverse=not lower_is_better(metric))


def whole(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of whole subsets and groups, without metrics of single lengths or ranges."""
    return {name: value for name, value in metrics.items() if "/length_" not in name}


def headlines(metrics: Mapping[str, Any]) -> list[str]:
    """Names of a run's main test metrics: the task's first metric on every whole subset and group."""
    tested = [name for name in whole(metrics) if name.startswith("test/")]
    first = tested[0].rpartition("/")[2] if tested else ""
    return [name for name in tested if name.rpartition("/")[2] == first]
