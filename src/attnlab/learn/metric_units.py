"""Units of everything that is measured: how a recorded number is shown, which of two is the better one, which can be.

All tables, pages, pictures and lines in a terminal ask here. Imports nothing, so that a report needs no torch.
"""

import math
import re
from dataclasses import dataclass, replace

LARGEST = 1e300
"""recorded numbers beyond it are no values: sums of them and their shares in percent would not be finite"""
LONG = 1e9
"""from here on a number is written with an exponent"""
NOT_FINITE = "not finite"


@dataclass(frozen=True)
class Unit:
    """How one kind of number is shown.

    name:    in heads of tables and in report.json.
    sign:    behind a number that stands by itself.
    factor:  the recorded number times this is the number shown.
    digits:  behind the point; none from a thousand on.
    least, most: between them lies what can be recorded.
    """

    name: str
    sign: str = ""
    factor: float = 1.0
    digits: int = 2
    lower_is_better: bool = False
    least: float = -LARGEST
    most: float = LARGEST


SHARE = Unit("percent", "%", 100.0, 1, least=0.0, most=1.0)
CORRELATION = replace(SHARE, least=-1.0)
"""in percent too, as GLUE and its papers print correlations"""
PERPLEXITY = Unit("perplexity", lower_is_better=True, least=0.0)
LOSS = Unit("loss", digits=4, lower_is_better=True)
RATIO = Unit("ratio", lower_is_better=True, least=0.0)

OF_RUNS = {
    "parameters": Unit("million parameters", "million", 1e-6, lower_is_better=True, least=0.0),
    "seconds": Unit("seconds", "s", digits=1, lower_is_better=True, least=0.0),
    "steps_per_second": Unit("steps per second", "steps/s", least=0.0),
    "state_size": Unit("numbers", digits=0, lower_is_better=True, least=0.0),
    "peak_memory_bytes": Unit("MB", "MB", 1e-6, 0, lower_is_better=True, least=0.0),
}
"""numbers of result.json beside its metrics"""
_KINDS = {
    "accuracy": SHARE,
    "f1": SHARE,
    "correlation": CORRELATION,
    "pearson": CORRELATION,
    "spearman": CORRELATION,
    "perplexity": PERPLEXITY,
    "loss": LOSS,
}
"""by a word in the name of a metric: sequence_accuracy_oracle_end"""
_BY_NAME = {unit.name: unit for unit in (SHARE, RATIO, LOSS, *OF_RUNS.values())}
_SPREAD = re.compile(r"relative_sd\((?P<name>[\w/.]+)\)")


def spread_of(metric: str) -> str | None:
    """The name inside `relative_sd(train/gradient_norm)`, else None."""
    found = _SPREAD.fullmatch(metric)
    return found["name"] if found else None


def unit_of(metric: str) -> Unit:
    """The unit of a metric (`test/ood/sequence_accuracy`) or of another number of a run (`seconds`).

    A perplexity is called by what it counts (`word perplexity`): perplexities of different things do not compare.
    """
    if metric in OF_RUNS:
        return OF_RUNS[metric]
    if spread_of(metric):
        return RATIO
    last = metric.rpartition("/")[2]
    found = next((_KINDS[word] for word in last.split("_") if word in _KINDS), Unit(""))
    return found if found.name in _BY_NAME else replace(found, name=last.replace("_", " "))


def same_unit(name: str, published: str) -> bool:
    """Whether a published number's unit is that of a column; papers say perplexity for one of anything."""
    return published in (name, name.rpartition(" ")[2])


def lower_is_better(metric: str) -> bool:
    return unit_of(metric).lower_is_better


def problem(metric: str, value: float | int) -> str:
    """Why a recorded number can be no value of a metric; empty where it can."""
    unit, given = unit_of(metric), as_float(value)
    if not math.isfinite(given):
        return NOT_FINITE
    # single precision may end a little beyond
    slack = 1e-6 if unit.most <= 1 else 0.0
    if given < unit.least - slack or (given > unit.most + slack and unit.most < LARGEST):
        return f"not in [{unit.least:g}, {unit.most:g}]" if unit.most < LARGEST else f"less than {unit.least:g}"
    return "too large to be averaged" if given > LARGEST else ""


def as_float(value: float | int) -> float:
    """A number of a JSON file, which may be an integer beyond every float."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def scaled(metric: str, value: float | int) -> float:
    """A recorded number as it is shown: in percent, in millions."""
    return unit_of(metric).factor * as_float(value)


def number(value: float | int, unit: str, signed: bool = False, like: float | int | None = None) -> str:
    """A number that is already in its unit, without the unit's sign: every table's and page's way to write one.

    Args:
        unit: the name of a unit.
        signed: write a plus too, as differences are.
        like: the number that it stands beside, a mean beside a standard deviation; it gets as many digits.
    """
    given = as_float(value)
    if not math.isfinite(given):
        return NOT_FINITE
    size = abs(given if like is None else as_float(like))
    if max(size, abs(given)) >= LONG:
        text = f"{given:.2e}"
    else:
        text = f"{given:,.{0 if size >= 1000 else _BY_NAME.get(unit, Unit(unit)).digits}f}"
    text = text if text.strip("-0.") else text.removeprefix("-")
    return f"+{text}" if signed and given > 0 else text


def text(metric: str, value: float | int) -> str:
    """A recorded number as a line of its own shows it: `99.7 %`; one that can be no value as it is, and why."""
    if wrong := problem(metric, value):
        return f"{as_float(value):g} ({wrong})"
    unit = unit_of(metric)
    return f"{number(scaled(metric, value), unit.name)} {unit.sign}".rstrip()


def label(name: str, unit: str) -> str:
    """What is measured, with its unit in parentheses where the name does not say it."""
    if unit == SHARE.name:
        return f"{name} (%)"
    return name if unit in name.replace("_", " ") else f"{name} ({unit.removesuffix(f' {name}')})"
