"""Breakdown of an accuracy by length, and the rule that says when one length carries a mean.

A task with lengths records a metric over all test examples and over each length or range of lengths
(`test/ood/length_30/sequence_accuracy`, `test/length_500_999/accuracy`), with the number of examples of each. The
length is that of the output, or of the input where the answer is a class.
"""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from attnlab.config.message_text import listed
from attnlab.learn.metric_units import SHARE, as_float, number, problem
from attnlab.report.analysis_record import LengthPart
from attnlab.report.report_record import Cell
from attnlab.report.runs.read_runs import FoundRun, is_share

MOST_PARTS = 10
"""columns of a breakdown; of more lengths, neighbours are put together"""
MOST_RIGHT = 50.0
"""percent of the right answers: a length with more of them may carry the mean"""
OVER_SHARE = 2.0
"""it does if they are this many times its share of the test examples"""
FEWEST_RIGHT = 10
"""right answers of a run, in the mean; fewer may be of one length by chance"""
_NAME = re.compile(r"length_(?P<first>\d+)(?:_(?P<last>\d+|up))?")


@dataclass(frozen=True)
class _Counted:
    """Examples of some lengths, and how many of them are right."""

    first: int
    last: int | None
    examples: int
    right: float


def recorded_lengths(run: FoundRun, metric: str) -> Iterator[tuple[int, int | None, str, float]]:
    """First and last length, name and number of a metric, for each recorded length.

    Args:
        metric: of the whole subset (`test/ood/sequence_accuracy`).
    """
    for key, value in run.result.get("metrics", {}).items():
        whole, first, last = _length_of(key)
        if whole == metric:
            yield first, last, key, value


@lru_cache(maxsize=2**12)
def _length_of(key: str) -> tuple[str, int, int | None]:
    """The metric of the whole subset, and first and last length, of the metric of a length; "" for any other."""
    part, _, measured = key.rpartition("/")
    above, _, length = part.rpartition("/")
    if (found := _NAME.fullmatch(length)) is None:
        return "", 0, None
    last = found["last"] or found["first"]
    return f"{above}/{measured}" if above else measured, int(found["first"]), None if last == "up" else int(last)


def length_parts(metric: str, runs: Sequence[FoundRun]) -> list[LengthPart] | None:
    """The breakdown of a metric over finished runs, in at most `MOST_PARTS` parts.

    None where the metric is no share of examples or has fewer than two lengths; also where the recorded numbers of
    examples are missing, or do not add up to the metric (`unknown_lengths`).
    """
    if not is_share(metric):
        return None
    by_run = [_counts(metric, run) for run in runs]
    if not by_run or not all(by_run):
        return None
    ordered = sorted(itertools.chain.from_iterable(by_run), key=_place)
    by_length = [_sum(list(same)) for _, same in itertools.groupby(ordered, key=_place)]
    return _parts(_together(by_length)) if len(by_length) > 1 else None


def unknown_lengths(metric: str, runs: Sequence[FoundRun]) -> bool:
    """Whether a share of examples was recorded by length and has no breakdown, for lack of numbers of examples."""
    lengths = {key[:2] for run in runs for key in recorded_lengths(run, metric)}
    return is_share(metric) and len(lengths) > 1 and length_parts(metric, runs) is None


def one_length(parts: Sequence[LengthPart], runs: int) -> LengthPart | None:
    """The part that carries the mean, if there is one.

    It has more than half of the right answers, and twice its share of the test examples or more. Where a run has fewer
    than ten right answers in the mean, there is none.

    Args:
        runs: number of runs that the parts are over.
    """
    right = math.fsum(part.examples * part.mean / 100 for part in parts)
    if right < FEWEST_RIGHT * runs:
        return None
    found = (one for one in parts if one.right is not None and one.right > max(MOST_RIGHT, OVER_SHARE * one.share))
    return next(found, None)


def _counts(metric: str, run: FoundRun) -> list[_Counted]:
    """The examples of each length in one run; empty if they do not add up to all examples and all right answers."""
    found = []
    for first, last, name, value in recorded_lengths(run, metric):
        examples = run.examples(name)
        if examples is None or problem(name, value):
            return []
        found.append(_Counted(first, last, examples, examples * as_float(value)))
    whole = run.examples(metric)
    if not found or whole is None or sum(one.examples for one in found) != whole:
        return []
    right = math.fsum(one.right for one in found)
    return found if math.isclose(right, whole * as_float(run.result["metrics"][metric]), abs_tol=1e-3) else []


def _place(one: _Counted) -> tuple[int, float]:
    return one.first, math.inf if one.last is None else one.last


def _sum(of: Sequence[_Counted]) -> _Counted:
    """Neighbouring lengths, or one length in several runs, as one."""
    examples, right = sum(one.examples for one in of), math.fsum(one.right for one in of)
    return _Counted(of[0].first, of[-1].last, examples, right)


def _together(ordered: Sequence[_Counted]) -> list[_Counted]:
    """At most `MOST_PARTS` ranges with about the same number of examples; each length by itself if there are few."""
    if len(ordered) <= MOST_PARTS:
        return list(ordered)
    total = sum(one.examples for one in ordered)
    ends = itertools.accumulate(one.examples for one in ordered)
    # by the middle of each length in the order of all examples
    groups = [int(MOST_PARTS * (end - one.examples / 2) / total) for one, end in zip(ordered, ends, strict=True)]
    pairs = itertools.groupby(zip(groups, ordered, strict=True), key=lambda pair: pair[0])
    return [_sum([one for _, one in members]) for _, members in pairs]


def _parts(of: Sequence[_Counted]) -> list[LengthPart]:
    """Shares and means in percent."""
    total = _sum(of)
    return [
        LengthPart(
            first=one.first,
            last=one.last,
            examples=one.examples,
            share=100 * one.examples / total.examples,
            mean=100 * one.right / one.examples,
            right=100 * one.right / total.right if total.right else None,
        )
        for one in of
    ]


def with_lengths(cells: Mapping[str, Cell], runs: Mapping[str, FoundRun]) -> dict[str, Cell]:
    """The cells of one row, by column, with their breakdown by length.

    Args:
        runs: of the table, by their folders (`Table.by_folder`).
    """
    found = {}
    for name, cell in cells.items():
        parts = None if cell.column.of else length_parts(cell.column.metric, cell.measured(runs))
        found[name] = replace(cell, by_length=parts, one_length=one_length(parts or (), cell.n))
    return found


def warnings(cells: Iterable[Cell], runs: Mapping[str, FoundRun]) -> list[str]:
    """Sentences on means that one length carries, and on accuracies without a breakdown, if there are any.

    Args:
        runs: of the table, by their folders (`Table.by_folder`).
    """
    cells = list(cells)
    carried = [
        f"{cell.row}, {cell.column.name}: {number(part.right, SHARE.name)} % of the right answers have {part.named}, "
        f"as have {number(part.share, SHARE.name)} % of the test set"
        for cell in cells
        if (part := cell.one_length) and part.right is not None
    ]
    lacking = [
        f"{cell.row} ({cell.column.name})"
        for cell in cells
        if not cell.column.of and cell.by_length is None
        if unknown_lengths(cell.column.metric, cell.measured(runs))
    ]
    found = [f"one length carries the mean: {'; '.join(carried)}"] if carried else []
    why = "result.json has no numbers of test examples that fit"
    return found + ([f"no breakdown by length, because {why}: {listed(lacking, 8)}"] if lacking else [])
