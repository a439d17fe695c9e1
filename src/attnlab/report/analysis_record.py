"""Differences of rows, answers to hypotheses and spent runs as dataclasses: the analysis in report.json."""

from dataclasses import dataclass, field

from attnlab.config.type_check import Integral, Real, Record


@dataclass(frozen=True)
class Comparison(Record):
    """The difference of two rows over their common seeds.

    p, corrected: of the paired t-test, alone and by Bonferroni over all tests of the table; None without a test.
    seeds:        each seed and its difference.
    """

    column: str
    row: str
    against: str
    difference: Real | None
    low: Real | None
    high: Real | None
    method: str | None = None
    p: Real | None = None
    corrected: Real | None = None
    seeds: list[tuple[Integral | str, Real]] = field(default_factory=list)

    @property
    def by_data(self) -> bool:
        """Whether each difference is the mean of one data set."""
        return any(str(seed).startswith("data ") for seed, _ in self.seeds)


@dataclass(frozen=True, kw_only=True)
class RowRuns(Record):
    """Runs of one row behind an answer.

    started:  runs of the row that have begun.
    diverged: of these, whose training ended because the loss or a weight was not finite.
    finished: with a number.
    used:     whose outcome, a number or that they diverged, is compared.
    """

    row: str
    started: Integral
    diverged: Integral
    finished: Integral
    used: Integral


@dataclass(frozen=True, kw_only=True)
class HypothesisAnswer(Record):
    """A declared hypothesis and its answer.

    claim:    the hypothesis in words; empty in older files.
    verdict:  supported, refuted or undecided (`report.declarations.hypothesis_answers`); older files have other words.
    reason:   the numbers behind the verdict.
    declared: whether the runs were begun under this hypothesis, in words.
    difference, low, high: None where runs are compared by ranks, and for failures; the interval is corrected.
    p, corrected: of the test against the end of the claimed range; None without a test or without a spread.
    runs:     of both rows.
    """

    row: str
    than: str
    column: str
    verdict: str
    reason: str
    claim: str = ""
    declared: str = ""
    difference: Real | None = None
    low: Real | None = None
    high: Real | None = None
    p: Real | None = None
    corrected: Real | None = None
    runs: list[RowRuns] = field(default_factory=list)

    @property
    def said(self) -> str:
        """The hypothesis in words."""
        return self.claim or f"{self.row} is better than {self.than} in {self.column}"


@dataclass(frozen=True, kw_only=True)
class SpentRuns(Record):
    """All runs of one model on one task, in the table or not (`report.runs.tuning_budget`).

    settings: number of different settings, seeds aside.
    values:   number of values that each key takes in them, of keys with several.
    states:   number of runs by state.
    hours:    training time, of unfinished runs until their last checkpoint.
    untimed:  number of runs whose training time is not known, so that it is not in `hours`.
    """

    task: str
    model: str
    settings: Integral
    values: dict[str, Integral] = field(default_factory=dict)
    states: dict[str, Integral]
    hours: Real
    untimed: Integral = 0

    @property
    def runs(self) -> int:
        """The number of runs."""
        return sum(self.states.values())


@dataclass(frozen=True, kw_only=True)
class DataSeedMean(Record):
    """The mean of a cell over the `n` runs on one data set."""

    data_seed: Integral
    mean: Real
    n: Integral


@dataclass(frozen=True, kw_only=True)
class DataSeedSpread(Record):
    """The numbers of a cell by data seed (`report.statistics.data_seeds`).

    within:   standard deviation between seeds on one data set, pooled; None if no data set has two numbers.
    between:  standard deviation between the means of data sets; None of fewer than two.
    expected: what `between` would be on average if data sets did not differ, from `within` alone.
    """

    row: str
    column: str
    means: list[DataSeedMean]
    within: Real | None = None
    between: Real | None = None
    expected: Real | None = None
