"""Intervals for the numbers of a configuration, as text with their type: `Annotated[int, "[1, inf)"]`.

An interval that is open to infinity still has a largest number: beyond it, arrays overflow, loops never end and
processes fill the machine. `up to` sets a smaller one. Such numbers are taken for a typing error; messages name the
bound only if it is exceeded.
"""

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import Annotated

# Seeds have 32 bits, sizes of arrays 64; the largest float32 is 3.4e38.
MOST = {int: 1e10, float: 1e30}
"""largest number of each type, unless an interval sets another one"""

Count = Annotated[int, "[1, inf)"]
Natural = Annotated[int, "[0, inf)"]
Width = Annotated[int, "[1, inf) up to 1e6"]
Depth = Annotated[int, "[1, inf) up to 1e4"]
Passes = Annotated[int, "[1, inf) up to 1e6"]
Threads = Annotated[int, "[1, inf) up to 4096"]
Positive = Annotated[float, "(0, inf)"]
NonNegative = Annotated[float, "[0, inf)"]
Probability = Annotated[float, "[0, 1)"]


@dataclass(frozen=True)
class Interval:
    """Numbers from `low` to `high`, included if `has_low`, `has_high`; at an infinite end, up to `most` in size."""

    low: float
    high: float
    most: float
    has_low: bool = False
    has_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = value >= self.low if self.has_low else value > self.low
        below = value <= self.high if self.has_high else value < self.high
        return above and below and not self.slip(value)

    def __str__(self) -> str:
        """` >= 1 and <= 47`; empty if both ends are infinite."""
        bounds = [f"{'>=' if self.has_low else '>'} {readable(self.low)}"] if self.low > -math.inf else []
        bounds += [f"{'<=' if self.has_high else '<'} {readable(self.high)}"] if self.high < math.inf else []
        return f" {' and '.join(bounds)}" if bounds else ""

    def slip(self, value: float) -> str:
        """Why a number towards an infinite end is refused; empty if it is accepted."""
        if self.high == math.inf and value > self.most:
            return f"more than {readable(self.most)} is taken for a slip"
        if self.low == -math.inf and value < -self.most:
            return f"less than {readable(-self.most)} is taken for a slip"
        return ""


@cache
def interval(kind: type, text: str = "(-inf, inf)") -> Interval:
    """The interval of a text for a type of numbers.

    Raises:
        ValueError: the text is no interval.
    """
    match = re.fullmatch(r"([\[(])\s*(\S+)\s*,\s*(\S+?)\s*([\])])(?: up to (\S+))?", text)
    if match is None:
        raise ValueError(f"not an interval: {text!r}")
    opening, low, high, closing, most = match.groups()
    return Interval(float(low), float(high), float(most or MOST[kind]), opening == "[", closing == "]")


def readable(number: float) -> str:
    """A bound as text: 10,000; 0.5."""
    return f"{number:,.15g}"
