"""Interleaved timing, and ratios taken pair by pair.

A shared machine changes its speed from second to second. So everything that is compared takes turns in one run, A B A
B ..., and a ratio is the median over the turns of time A / time B of the same turn, never a quotient of two separate
runs. Figures are medians. On a GPU a time lasts until it has nothing left to do.
"""

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import scipy.stats
import torch

SAMPLE_SECONDS = 0.005
"""calls shorter than this are repeated within one sample"""


@dataclass(frozen=True)
class Timings:
    """Seconds per call of each contestant; entry t of every list is from the same turn."""

    seconds: Mapping[str, Sequence[float]]

    def median(self, name: str) -> float:
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, baseline: str) -> float:
        """Returns the median over the turns of the time of `name` / the time of `baseline`."""
        return statistics.median(self.ratios(name, baseline))

    def quartiles(self, name: str, baseline: str) -> str:
        """Returns the middle half of the ratios as text: the spread around the median."""
        if name == baseline or len(self.seconds[name]) < 2:
            return ""
        low, _, high = statistics.quantiles(self.ratios(name, baseline), n=4, method="inclusive")
        return f"{low:.3f} to {high:.3f}"

    def interval(self, name: str, baseline: str) -> "Interval":
        """Returns the 95 % interval of `ratio`."""
        return median_interval(self.ratios(name, baseline))

    def ratios(self, name: str, baseline: str) -> list[float]:
        """Returns the ratio of each turn, in order."""
        return [a / b for a, b in zip(self.seconds[name], self.seconds[baseline], strict=True)]


@dataclass(frozen=True)
class Interval:
    """Interval of a median; both ends are nan if there are too few values."""

    low: float
    high: float

    def text(self, form: Callable[[float], str] = "{:.3f}".format) -> str:
        """Returns both ends as text, `-` without ends."""
        return "-" if math.isnan(self.low) else f"{form(self.low)} to {form(self.high)}"


def median_interval(values: Sequence[float]) -> Interval:
    """Returns the 95 % interval of the median, from two of the sorted values (scipy.stats.quantile_test).

    Its coverage is at least 95 % whatever the distribution, outliers of a busy machine included, as long as the turns
    are independent. Below six values no pair of them covers so much.
    """
    if len(values) < 6:
        return Interval(math.nan, math.nan)
    result = scipy.stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    return Interval(float(result.low), float(result.high))


def interleaved(
    runs: Mapping[str, Callable[[], object]], seconds: float, activity: str, least: int = 5, warm: int = 1
) -> Timings:
    """Times every contestant in turn for about `seconds` in all, at least `least` turns (`timed_turns`).

    Args:
        runs: the contestants by name.
        activity: shown as progress.
        warm: unmeasured calls of each before; compiled ones need more.
    """
    repeats = {}
    for name, run in runs.items():
        progress(f"{activity}: starting {name}")
        for _ in range(warm):
            run()
        repeats[name] = max(1, round(SAMPLE_SECONDS / _seconds(run, 1)))
    collected: dict[str, list[float]] = {name: [] for name in runs}
    for shown in timed_turns(seconds, least):
        for name, run in runs.items():
            collected[name].append(_seconds(run, repeats[name]))
        progress(f"{activity}: {shown}")
    progress(None)
    return Timings(collected)


def timed_turns(seconds: float, least: int, name: str = "turn") -> Iterator[str]:
    """Turns as long as one more fits into `seconds`, but at least `least`; a note says where these took longer.

    Yields:
        the turn for `progress`: its number and the seconds before it.
    """
    started, number, passed = time.perf_counter(), 0, 0.0
    while number < least or passed * (number + 1) / max(number, 1) <= seconds:
        yield f"{name} {number + 1}, after {passed:.0f} of {seconds:.0f} s"
        number, passed = number + 1, time.perf_counter() - started
    # 0: as few as possible
    if number == least and 0 < seconds < passed:
        progress(None)
        least_of = f"{number} {name}s, the least that is measured," if number > 1 else f"one {name}"
        print(f"note: {least_of} took {passed:.0f} s, longer than --seconds {seconds:g}", file=sys.stderr)


def _seconds(run: Callable[[], object], repeats: int) -> float:
    settle()
    begin = time.perf_counter()
    for _ in range(repeats):
        run()
    settle()
    return max((time.perf_counter() - begin) / repeats, 1e-9)


def settle() -> None:
    """Waits until all work queued on a GPU is done."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


class _Shown:
    last = 0.0


def progress(text: str | None) -> None:
    """Shows progress on stderr: one changing line in a terminal, otherwise a line every ten seconds; None clears it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{text or ''}")
        sys.stderr.flush()
    elif text is not None and time.monotonic() - _Shown.last > 10:
        _Shown.last = time.monotonic()
        print(text, file=sys.stderr, flush=True)
