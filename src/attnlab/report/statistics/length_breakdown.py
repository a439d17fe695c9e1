"""What a test set says of an accuracy: its breakdown by length, the length that carries it, its error, its shortcuts.

A task with lengths records a metric over all test examples and over each length or range of lengths of the output, or
of the input where there is no output sequence (`test/ood/length_30/sequence_accuracy`, `test/length_500_999/accuracy`).
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from attnlab.config.message_text import listed
from attnlab.learn.metric_units import SHARE, as_float, best_first, number, problem, scaled
from attnlab.report.analysis_record import LengthPart
from attnlab.report.report_record import Cell
from attnlab.report.runs.read_runs import ReportRun, grouped, is_share
from attnlab.report.statistics.differences import mean

MOST_PARTS = 10
"""columns of a breakdown; of more lengths, neighbours are put together"""
MOST_RIGHT = 50.0
"""percent of the right answers: a length with more of them may carry the mean"""
OVER_SHARE = 2.0
"""it does if they are this many times its share of the test examples"""
FEWEST_RIGHT = 10
"""right answers of a run, in the mean; fewer may be of one length by chance"""
_NAME = re.compile(r"length_(?P<first>\d+)(?:_(?P<last>\d+|up))?")


class _Counted(NamedTuple):
    """Examples of some lengths, and how many of them are right; the last length may be infinite."""

    first: int
    last: float
    examples: int
    right: float


def recorded_lengths(run: ReportRun, metric: str) -> Iterator[tuple[int, int | None, str, float]]:
    """First and last length, name and number of a metric of a whole subset, for each recorded length."""
    for key, value in run.result.get("metrics", {}).items():
        whole, first, last = _length_of(key)
        if whole == metric:
            yield first, last, key, value


@lru_cache(maxsize=2**12)
def _length_of(key: str) -> tuple[str, int, int | None]:
    """The metric of the whole subset, and first and last length, of the metric of a length; "" for any other."""
    part, _, measured = key.rpartition("/")
    above, _, length = part.rpartition("/")
    if (ends := _NAME.fullmatch(length)) is None:
        return "", 0, None
    last = ends["last"] or ends["first"]
    return f"{above}/{measured}" if above else measured, int(ends["first"]), None if last == "up" else int(last)


def length_parts(metric: str, runs: Sequence[ReportRun]) -> list[LengthPart] | None:
    """The breakdown of a metric over finished runs, in at most `MOST_PARTS` parts.

    None where the metric is no share of examples or has fewer than two lengths; also where the recorded numbers of
    examples are missing, or do not add up to the metric.
    """
    if not is_share(metric):
        return None
    by_run = [_counts(metric, run) for run in runs]
    if not by_run or not all(by_run):
        return None
    lengths = grouped((counts, counts[:2]) for run in by_run for counts in run)
    by_length = [_sum(lengths[ends]) for ends in sorted(lengths)]
    return _parts(_together(by_length)) if len(by_length) > 1 else None


def one_length(parts: Sequence[LengthPart], runs: int) -> LengthPart | None:
    """The part that carries the mean over so many runs, if there is one.

    It has more than half of the right answers, and twice its share of the test examples or more. Where a run has fewer
    than ten right answers in the mean, there is none.
    """
    right = math.fsum(part.examples * part.mean / 100 for part in parts)
    if right < FEWEST_RIGHT * runs:
        return None
    return next((part for part in parts if (part.right or 0) > max(MOST_RIGHT, OVER_SHARE * part.share)), None)


def _counts(metric: str, run: ReportRun) -> list[_Counted]:
    """The examples of each length in one run; empty if they do not add up to all examples and all right answers."""
    lengths = []
    for first, last, name, value in recorded_lengths(run, metric):
        examples = run.examples(name)
        if examples is None or problem(name, value):
            return []
        lengths.append(_Counted(first, math.inf if last is None else last, examples, examples * as_float(value)))
    whole = run.examples(metric)
    if not lengths or whole is None or sum(counts.examples for counts in lengths) != whole:
        return []
    right = math.fsum(counts.right for counts in lengths)
    return lengths if math.isclose(right, whole * as_float(run.result["metrics"][metric]), abs_tol=1e-3) else []


def _sum(lengths: Sequence[_Counted]) -> _Counted:
    """Neighbouring lengths, or one length in several runs, as one."""
    examples, right = sum(counts.examples for counts in lengths), math.fsum(counts.right for counts in lengths)
    return _Counted(lengths[0].first, lengths[-1].last, examples, right)


def _together(lengths: Sequence[_Counted]) -> list[_Counted]:
    """At most `MOST_PARTS` ranges with about the same number of examples; each length by itself if there are few."""
    if len(lengths) <= MOST_PARTS:
        return list(lengths)
    *_, total = ends = list(accumulate(counts.examples for counts in lengths))
    # by the middle of each length in the order of all examples
    groups = grouped(
        (counts, int(MOST_PARTS * (end - counts.examples / 2) / total))
        for counts, end in zip(lengths, ends, strict=True)
    )
    return list(map(_sum, groups.values()))


def _parts(lengths: Sequence[_Counted]) -> list[LengthPart]:
    """Shares and means in percent."""
    total = _sum(lengths)
    return [
        LengthPart(
            first=first,
            last=None if math.isinf(last) else int(last),
            examples=examples,
            share=100 * examples / total.examples,
            mean=100 * right / examples,
            right=100 * right / total.right if total.right else None,
        )
        for first, last, examples, right in lengths
    ]


def shortcuts_of(metric: str, run: ReportRun) -> list[tuple[str, float]]:
    """Names and scores of shortcuts in a metric of a run, in the unit of the metric; the best one first.

    Runs record what answers without understanding get (`attnlab.tasks.shortcuts`); runs of earlier versions have none.
    """
    # the rule that selects weights changes no shortcut
    recorded = run.result.get("shortcuts", {}).get(metric.replace("test_paper_rule/", "test/", 1), {})
    known = [(name, scaled(metric, value)) for name, value in recorded.items() if not problem(metric, value)]
    return best_first(metric, known)


def with_test_sets(cells: Mapping[str, Cell], runs: Mapping[str, ReportRun]) -> dict[str, Cell]:
    """The cells of one row, by column, with the size of their test sets, its error, their breakdown and shortcuts.

    A cell has the binomial standard error of one run with its mean, in points; none at 0 and 100 %, where nothing is
    certain. Examples are taken as independent; where they are not, as the 20 questions about one picture, the error is
    larger. A mean of columns has the error of independent columns, and the mean of their
    best shortcuts. Shortcuts are means, where runs have different data.
    """
    complete: dict[str, Cell] = {}
    for name, cell in cells.items():
        metric, measured = cell.column.metric, cell.measured(runs)
        parts = [complete[part] for part in cell.column.of]
        if parts:
            errors = [part.test_set_error for part in parts if part.test_set_error is not None]
            error = math.hypot(*errors) / len(errors) if len(errors) == len(parts) else None
            complete[name] = replace(cell, test_set_error=error, shortcuts=_best_of_each(parts))
            continue
        each = [dict(known) for run in measured if (known := shortcuts_of(metric, run))]
        shared = [shortcut for shortcut in each[0] if all(shortcut in pairs for pairs in each)] if each else []
        means = [(shortcut, mean([pairs[shortcut] for pairs in each])) for shortcut in shared]
        sizes = {run.examples(metric) for run in measured} if is_share(metric) else set()
        examples, percent = sizes.pop() if len(sizes) == 1 else None, cell.mean
        error = None
        if percent is not None and examples is not None and 0 < percent < 100:
            error = math.sqrt(percent * (100 - percent) / examples)
        lengths = length_parts(metric, measured)
        complete[name] = replace(
            cell,
            examples=examples,
            test_set_error=error,
            by_length=lengths,
            one_length=one_length(lengths or (), cell.n),
            shortcuts=best_first(metric, means),
        )
    return complete


def _best_of_each(parts: Sequence[Cell]) -> list[tuple[str, float]]:
    """The mean of the best shortcuts of several cells; empty where one has none."""
    if not all(part.shortcuts for part in parts):
        return []
    names, numbers = zip(*(part.shortcuts[0] for part in parts), strict=True)
    return [(names[0] if len(set(names)) == 1 else "best of each column", mean(numbers))]


def warnings(cells: Iterable[Cell], runs: Mapping[str, ReportRun]) -> list[str]:
    """Sentences on accuracies without an error or a breakdown, and on means that one length carries."""
    shares = [cell for cell in cells if is_share(cell.column.metric) and not cell.column.of]
    carried = [
        f"{cell.row}, {cell.column.name}: {number(part.right, SHARE.name)} % of the right answers have {part.named}, "
        f"as have {number(part.share, SHARE.name)} % of the test set"
        for cell in shares
        if (part := cell.one_length) and part.right is not None
    ]
    unsized = [cell for cell in shares if cell.mean is not None and cell.examples is None]
    whole = []
    for cell in (cell for cell in shares if cell.by_length is None):
        recorded = (part for run in cell.measured(runs) for part in recorded_lengths(run, cell.column.metric))
        whole += [cell] if len({(first, last) for first, last, *_ in recorded}) > 1 else []
    why = "result.json lacks the number of test examples or tokens, or runs of one cell have different numbers"
    lines = [f"no test set error, because {why}: {_named(unsized)}"] if unsized else []
    lines += [f"one length carries the mean: {'; '.join(carried)}"] if carried else []
    why = "result.json has no numbers of test examples that fit"
    return [*lines, f"no breakdown by length, because {why}: {_named(whole)}"] if whole else lines


def _named(cells: Iterable[Cell]) -> str:
    return listed([f"{cell.row} ({cell.column.name})" for cell in cells], 8)
